mod accuracy;
mod blocks;
mod protocol;
mod stopped;
