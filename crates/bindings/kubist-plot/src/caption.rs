//! Captions of plots.

use kubist_types::human;

/// `n of N points, fraction p`, where the `drawn` points are a sample of this fraction of `rows` rows.
pub fn caption(drawn: u64, fraction: f64, rows: Option<u64>) -> String {
    if drawn == 0 {
        return "no points".to_string();
    }
    if fraction >= 1.0 {
        return format!("all {}", human::counted(drawn, "point"));
    }
    let all = match rows {
        Some(rows) => human::count(rows),
        None => {
            // Horvitz-Thompson estimate of the total.
            let estimate = drawn as f64 / fraction;
            let digits = 10f64.powf((estimate.max(1.0).log10().floor() - 2.0).max(0.0));
            format!("about {}", human::count(((estimate / digits).round() * digits) as u64))
        }
    };
    format!("{} of {all} points, fraction {}", human::count(drawn), human::fraction(fraction))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captions_read_well() {
        assert_eq!(caption(0, 0.5, None), "no points");
        assert_eq!(caption(1, 1.0, Some(1)), "all 1 point");
        assert_eq!(caption(2000, 0.01, Some(199_321)), "2,000 of 199,321 points, fraction 0.01");
        assert_eq!(caption(1234, 0.01, None), "1,234 of about 123,000 points, fraction 0.01");
    }
}
