//! Colours of everything except the points.

use std::str::FromStr;

use crate::colormap::Color;

/// The theme of a plot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Style {
    /// Dark axes and text on white.
    #[default]
    Paper,
    /// Light axes and text on near black.
    Dark,
}

impl FromStr for Style {
    type Err = String;

    fn from_str(name: &str) -> Result<Style, String> {
        match name.to_ascii_lowercase().as_str() {
            "paper" => Ok(Style::Paper),
            "dark" => Ok(Style::Dark),
            _ => Err(format!("expected paper or dark, not {name:?}")),
        }
    }
}

pub(crate) struct Theme {
    pub background: Color,
    pub grid: Color,
    pub line: Color,
    pub text: Color,
    pub quiet: Color,
    /// Points without a value.
    pub missing: Color,
}

const PAPER: Theme = Theme {
    background: [255, 255, 255],
    grid: [233, 235, 238],
    line: [90, 94, 102],
    text: [34, 37, 43],
    quiet: [108, 113, 122],
    missing: [176, 180, 186],
};

const DARK: Theme = Theme {
    background: [17, 19, 24],
    grid: [38, 42, 50],
    line: [122, 128, 138],
    text: [228, 231, 236],
    quiet: [150, 156, 166],
    missing: [92, 97, 106],
};

impl Style {
    pub(crate) fn theme(self) -> &'static Theme {
        match self {
            Style::Paper => &PAPER,
            Style::Dark => &DARK,
        }
    }
}
