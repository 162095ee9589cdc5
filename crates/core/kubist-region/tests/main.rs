//! Regions as conditions: rows and zones against the definitions, and mistakes by name.

mod mistakes;
mod shapes;
