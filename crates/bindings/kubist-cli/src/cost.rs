//! The cost of a query as text.

use kubist::Stats;

use crate::human;

pub fn cost(stats: &Stats, fraction: f64) -> String {
    let per_record = if stats.rows_returned == 0 {
        String::new()
    } else {
        let each = format!("{:.2}", stats.rows_read as f64 / stats.rows_returned as f64);
        format!(", {} each", human::grouped(&each))
    };
    let looked_up = match stats.runs_looked_up {
        0 => String::new(),
        runs => format!(", {} looked up", human::counted(runs, "run")),
    };
    let cached = match stats.bytes_cached {
        0 => String::new(),
        bytes => format!(" ({} cached)", human::bytes(bytes)),
    };
    let sample = if fraction < 1.0 { format!(", fraction {}", human::fraction(fraction)) } else { String::new() };
    format!(
        "{}{sample}; {} read{per_record}; {}{cached} in {} of {}{looked_up}, {}; {}",
        human::counted(stats.rows_returned, "record"),
        human::count(stats.rows_read),
        human::bytes(stats.bytes_read),
        human::counted(stats.pages_read, "page"),
        human::counted(stats.cubes_visited, "cube"),
        human::counted(stats.round_trips, "round trip"),
        human::duration(stats.seconds)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_reads_well() {
        let stats = Stats {
            rows_returned: 1000,
            rows_read: 1220,
            bytes_read: 1536,
            bytes_cached: 0,
            pages_read: 1,
            cubes_visited: 12,
            runs_looked_up: 0,
            round_trips: 3,
            seconds: 0.0042,
        };
        let line = cost(&stats, 0.01);
        assert_eq!(
            line,
            "1,000 records, fraction 0.01; 1,220 read, 1.22 each; 1.5 KiB in 1 page of 12 cubes, 3 round trips; 4.2 ms"
        );
        let line = cost(&Stats { runs_looked_up: 12, ..stats }, 1.0);
        assert!(line.ends_with("1 page of 12 cubes, 12 runs looked up, 3 round trips; 4.2 ms"), "{line}");
        let line = cost(&Stats { bytes_cached: 1024, ..stats }, 1.0);
        assert!(line.contains("; 1.5 KiB (1.0 KiB cached) in 1 page of"), "{line}");
        assert!(cost(&Stats::default(), 1.0).starts_with("0 records; 0 read; "));
    }
}
