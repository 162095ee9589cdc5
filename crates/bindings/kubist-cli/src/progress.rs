//! Progress line of long commands. It appears only if standard error is a terminal, fits its width, is drawn at
//! most ten times a second, and disappears when the command ends.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::human;

const REDRAW: Duration = Duration::from_millis(100);
/// Shorter commands show no line.
const PATIENCE_SECONDS: f64 = 0.3;

const BAR: &str = "{bar:16} {percent:>3}% {wide_msg}";
const LINE: &str = "{wide_msg}";

pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    pub fn new() -> Progress {
        Progress::on(ProgressDrawTarget::stderr(), Instant::now())
    }

    fn on(target: ProgressDrawTarget, started: Instant) -> Progress {
        Progress { bar: ProgressBar::with_draw_target(Some(0), target), started, drawn: None }
    }

    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Draws a bar with the fraction of `done` in `total`, the text of `what` (called only if the line is drawn), and
    /// the remaining time.
    pub fn show(&mut self, done: u64, total: u64, what: impl FnOnce(f64) -> String) {
        let seconds = self.seconds();
        let drawn_lately = self.drawn.is_some_and(|last| last.elapsed() < REDRAW);
        if self.bar.is_hidden() || seconds < PATIENCE_SECONDS || drawn_lately {
            return;
        }
        let share = if total == 0 { 1.0 } else { (done as f64 / total as f64).min(1.0) };
        let left = if share > 0.01 && seconds > 1.0 {
            format!(", {} left", human::duration((seconds / share - seconds).max(1.0)))
        } else {
            String::new()
        };
        self.draw(BAR, (done.min(total), total), &format!("{}{left}", what(seconds)));
    }

    pub fn say(&mut self, line: &str) {
        if !self.bar.is_hidden() {
            self.draw(LINE, (0, 0), line);
        }
    }

    fn draw(&mut self, template: &str, (done, total): (u64, u64), text: &str) {
        self.drawn = Some(Instant::now());
        // The templates are valid, and a default style is better than a failure.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar.set_style(style.progress_chars("█░"));
        self.bar.update(|state| {
            state.set_len(total);
            state.set_pos(done);
        });
        self.bar.set_message(kubist_types::shown::printable(text).into_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

    /// Records the lines written to it; `None` for a cleared line.
    #[derive(Clone, Debug, Default)]
    struct Narrow(Arc<Mutex<Vec<Option<String>>>>);

    const WIDTH: u16 = 40;

    impl Narrow {
        fn note(&self, line: Option<&str>) -> io::Result<()> {
            self.0.lock().unwrap().push(line.map(str::to_owned));
            Ok(())
        }
    }

    impl TermLike for Narrow {
        fn width(&self) -> u16 {
            WIDTH
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, line: &str) -> io::Result<()> {
            self.note(Some(line))
        }
        fn write_str(&self, line: &str) -> io::Result<()> {
            self.note(Some(line))
        }
        fn clear_line(&self) -> io::Result<()> {
            self.note(None)
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn progress(terminal: &Narrow, seconds: u64) -> Progress {
        let started = Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        Progress::on(ProgressDrawTarget::term_like(Box::new(terminal.clone())), started)
    }

    #[test]
    fn a_line_fits_the_terminal_and_goes_at_the_end() {
        let terminal = Narrow::default();
        let mut shown = progress(&terminal, 10);
        shown.show(1, 2, |_| "界\u{1b}[2J".repeat(100));
        drop(shown);
        let lines = terminal.0.lock().unwrap();
        let wide: Vec<_> = lines.iter().flatten().filter(|line| !line.trim().is_empty()).collect();
        assert!(wide.iter().any(|line| line.starts_with("████████░░░░░░░░  50% 界\\u{1b}[2J")), "{wide:?}");
        for line in wide {
            assert!(unicode_width::UnicodeWidthStr::width(line.as_str()) <= WIDTH.into(), "{line}");
        }
        assert_eq!(lines.iter().rfind(|line| line.as_deref() != Some("")), Some(&None), "{lines:?}");
    }

    #[test]
    fn a_short_command_shows_nothing() {
        let terminal = Narrow::default();
        progress(&terminal, 0).show(1, 2, |_| unreachable!("nobody sees it"));
        assert!(terminal.0.lock().unwrap().iter().flatten().all(|line| line.trim().is_empty()));
    }
}
