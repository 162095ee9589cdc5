//! Translates replication settings of locations into CQL, independent of any cluster.

/// The replication settings for `3` or `dc1:3,dc2:2`; `None` for other texts.
pub fn replication(text: &str) -> Option<String> {
    let factor = |text: &str| text.parse::<u8>().ok().filter(|factor| *factor > 0);
    if let Some(factor) = factor(text) {
        return Some(format!("{{'class': 'SimpleStrategy', 'replication_factor': {factor}}}"));
    }
    let mut centers = String::new();
    for part in text.split(',') {
        let (name, count) = part.split_once(':')?;
        let known = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        centers += &format!(", '{}': {}", Some(name).filter(|_| known)?, factor(count)?);
    }
    Some(format!("{{'class': 'NetworkTopologyStrategy'{centers}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replication_is_a_number_or_one_for_each_data_center() {
        assert_eq!(replication("3").unwrap(), "{'class': 'SimpleStrategy', 'replication_factor': 3}");
        assert_eq!(replication("eu:3,us-2:1").unwrap(), "{'class': 'NetworkTopologyStrategy', 'eu': 3, 'us-2': 1}");
        for text in ["", "0", "x", "x:", "x:0", "x:3,", "x':3"] {
            assert_eq!(replication(text), None, "{text}");
        }
    }
}
