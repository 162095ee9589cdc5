//! `kubist plot --animate`: a sequence of frames with the same axes, colours, sample fraction and point size.
//!
//! The first pass reads each frame with the point limit, and the smallest fraction of all frames becomes the
//! common one. Only the extents and the frame with most points are kept.

use kubist::{Cancel, Query};
use kubist_plot::{Extents, Film, Points, Stage};
use kubist_types::human;

use super::frames::{Frame, frames};
use super::reel::AnimationOutput;
use super::{PlotRequest, Read};
use crate::failure::{Failure, Result};
use crate::output::{print_json, remark};
use crate::parse;
use crate::progress::Progress;

/// Frames per second, unless --style sets them.
const PER_SECOND: f64 = 10.0;

pub fn run(asked: &PlotRequest, cancel: &Cancel) -> Result<()> {
    let command = asked.command;
    let output = AnimationOutput::new(&command.output)?;
    let fps = asked.look.fps.unwrap_or(PER_SECOND);
    if matches!(output, AnimationOutput::Gif(_)) && fps > Film::MOST_PER_SECOND {
        let most = Film::MOST_PER_SECOND;
        remark(&format!(
            "note: a .gif has at most {most} frames per second, so this one has {most}; an .mp4 can have more"
        ));
    }
    let column = command.animate.as_deref().unwrap_or_default();
    let column = parse::column(&asked.snapshot.schema(), column)?.clone();
    let frames = frames(asked, &column, command.frames, cancel)?;
    let mut run = Run { asked, cancel, progress: Progress::new(), done: 0, rows: 0, bytes: 0, passes: 2, frames };
    if asked.color.is_empty() {
        run.passes = 3;
    }
    let Some(survey) = run.survey()? else {
        return Err(Failure::usage(format!(
            "--animate {}: no row of the region has a value in this column",
            column.name()
        )));
    };
    let pooled = asked.read(asked.query.clone(), cancel)?;
    let fraction = survey.fraction;
    let caption = run.caption(0, &survey.fullest, fraction);
    let mut picture = asked.picture(pooled.points, fraction, &caption)?;
    picture.fix_axes(&survey.extents);
    let mut stage = Stage::new(&picture, &survey.fullest, cancel)?;
    drop(survey);
    if asked.color.is_empty() {
        run.each(fraction, |points, _| Ok(stage.settle(&points)?))?;
    }
    let mut reel = output.begin(&stage, fps, [asked.title(), caption])?;
    run.each(fraction, |points, caption| reel.add(&stage.scene(&points, &caption)?.canvas(cancel)?, cancel))?;
    cancel.check()?;
    reel.finish()?;
    let (width, height) = stage.size();
    if command.json {
        return print_json(&serde_json::json!({
            "output": command.output.to_string_lossy(),
            "width": width,
            "height": height,
            "frames": run.frames.len(),
            "fraction": fraction,
            "rows_read": run.rows,
            "bytes_read": run.bytes,
            "seconds": run.progress.seconds(),
        }));
    }
    let frames = human::counted(run.frames.len() as u64, "frame");
    remark(&format!("{}: {frames}, fraction {}", command.output.display(), human::fraction(fraction)));
    Ok(())
}

struct Survey {
    fraction: f64,
    extents: Extents,
    fullest: Points,
}

struct Run<'a> {
    asked: &'a PlotRequest<'a>,
    cancel: &'a Cancel,
    progress: Progress,
    /// Frames read so far, in all passes.
    done: u64,
    rows: u64,
    bytes: u64,
    passes: u64,
    frames: Vec<Frame>,
}

impl Run<'_> {
    /// `None` if there is no frame.
    fn survey(&mut self) -> Result<Option<Survey>> {
        let mut survey: Option<Survey> = None;
        for frame in 0..self.frames.len() {
            let query = self.frames[frame].of(&self.asked.query);
            let Read { points, fraction, .. } = self.read(query)?;
            let Some(known) = &mut survey else {
                let mut extents = Extents::default();
                extents.include(&points);
                survey = Some(Survey { fraction, extents, fullest: points });
                continue;
            };
            known.extents.include(&points);
            // The number of points at fraction 1.
            let full = |points: &Points, fraction: f64| points.len() as f64 / fraction;
            if full(&points, fraction) > full(&known.fullest, known.fraction) {
                known.fullest = points;
            }
            known.fraction = known.fraction.min(fraction);
        }
        Ok(survey)
    }

    fn each(&mut self, fraction: f64, mut with: impl FnMut(Points, String) -> Result<()>) -> Result<()> {
        for frame in 0..self.frames.len() {
            let query = self.frames[frame].of(&self.asked.query);
            let read = self.read(Query { sample: Some(fraction), limit: None, ..query })?;
            let caption = self.caption(frame, &read.points, fraction);
            with(read.points, caption)?;
        }
        Ok(())
    }

    fn read(&mut self, query: Query) -> Result<Read> {
        self.cancel.check()?;
        let read = self.asked.read(query, self.cancel)?;
        self.rows += read.stats.rows_read;
        self.bytes += read.stats.bytes_read;
        self.done += 1;
        let (frames, total) = (self.frames.len() as u64, self.passes * self.frames.len() as u64);
        let (pass, frame) = ((self.done - 1) / frames + 1, (self.done - 1) % frames + 1);
        let what = if pass < self.passes { "examined" } else { "drawn" };
        self.progress.show(self.done, total, |_| format!("{frame} of {frames} frames {what}"));
        Ok(read)
    }

    fn caption(&self, frame: usize, points: &Points, fraction: f64) -> String {
        format!("{}: {}", self.frames[frame].label, self.asked.caption(points, fraction, false))
    }
}
