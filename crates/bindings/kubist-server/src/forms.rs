//! Rewrites parameters in the forms that people write for Python and the command, `"1%"` or `"x desc, id"`, as
//! the numbers and lists of the HTTP interface.

use kubist_types::human::number_or_percent;
use serde_json::{Map, Value, json};

const LISTS: [&str; 3] = ["order_by", "aggregates", "group_by"];

/// # Errors
///
/// A message that begins with the parameter, for a text that is no such amount.
pub fn normalise(body: &mut Map<String, Value>) -> Result<(), String> {
    if let Some(sample) = body.get_mut("sample") {
        fraction("sample", sample)?;
    }
    if let Some(Value::Array(ends)) = body.get_mut("window") {
        ends.iter_mut().try_for_each(|end| fraction("window", end))?;
    }
    if let Some(steps) = body.get_mut("steps").filter(|steps| steps.is_i64()) {
        *steps = json!([steps, steps]);
    }
    for name in LISTS {
        if let Some(Value::String(text)) = body.get(name) {
            let list = kubist_expr::several(text).into_iter().map(|part| json!(part)).collect();
            body.insert(name.into(), Value::Array(list));
        }
    }
    if let Some(Value::String(text)) = body.get("within") {
        let seconds = kubist_expr::seconds(text).map_err(|error| format!("within: {error}"))?;
        body.insert("within".into(), json!(seconds));
    }
    if let Some(Value::String(text)) = body.get("error") {
        let text = text.trim().to_owned();
        if let Some(share) = number_or_percent(&text) {
            body.insert("error".into(), json!(share));
        } else if body.contains_key("absolute") {
            return Err(format!("error: {text:?} is an absolute error, and `absolute` is given too"));
        } else {
            body.remove("error");
            let number = text.strip_suffix("abs").and_then(|number| number.trim().parse::<f64>().ok());
            body.insert("absolute".into(), number.map_or(json!(text), |number| json!(number)));
        }
    }
    Ok(())
}

fn fraction(name: &str, value: &mut Value) -> Result<(), String> {
    if let Value::String(text) = value {
        let number = number_or_percent(text);
        *value = json!(number.ok_or_else(|| format!("{name}: {text:?} is no fraction, such as 0.01 or 1%"))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalised(body: Value) -> Result<Value, String> {
        let Value::Object(mut body) = body else { panic!("a body is an object") };
        normalise(&mut body).map(|()| Value::Object(body))
    }

    #[test]
    fn the_forms_of_python_are_accepted() {
        let written = json!({
            "sample": "1 %", "window": ["0%", 0.5], "steps": 7, "order_by": "x desc, least(x, y)",
            "aggregates": "mean(x), count()", "group_by": "kind", "within": "500 ms", "error": "1%",
        });
        let meant = json!({
            "sample": 0.01, "window": [0.0, 0.5], "steps": [7, 7], "order_by": ["x desc", "least(x, y)"],
            "aggregates": ["mean(x)", "count()"], "group_by": ["kind"], "within": 0.5, "error": 0.01,
        });
        assert_eq!(normalised(written), Ok(meant.clone()));
        assert_eq!(normalised(meant.clone()), Ok(meant));
        assert_eq!(normalised(json!({"error": "0.01 abs"})), Ok(json!({"absolute": 0.01})));
        assert_eq!(normalised(json!({"error": "0.1 mm"})), Ok(json!({"absolute": "0.1 mm"})));
    }

    #[test]
    fn other_texts_are_refused_by_name() {
        for (body, name) in [
            (json!({"sample": "few"}), "sample"),
            (json!({"window": ["a", 1]}), "window"),
            (json!({"within": "soon"}), "within"),
            (json!({"error": "1 mm", "absolute": 1}), "error"),
        ] {
            let message = normalised(body).unwrap_err();
            assert!(message.starts_with(name), "{message}");
        }
    }
}
