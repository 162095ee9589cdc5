//! Suggestions for misspelt names.

/// Minimum letters of a name to match it with the beginning of another.
const LEAST_BEGINNING: usize = 3;

/// Up to three candidates that are similar to an unknown name, most similar first.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let lower = name.to_lowercase();
    let joined = |name: &str| name.replace('_', "");
    let both = |candidate: &str| distance(&lower, candidate).min(distance(&joined(&lower), &joined(candidate)));
    let mut near: Vec<(usize, &str)> = candidates
        .map(|candidate| (both(&candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().min(name.len()) / 4)
        .collect();
    near.sort_unstable();
    near.truncate(3);
    near.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Optimal string alignment distance: characters to change, insert, delete or swap with the next. A prefix or a word
/// inside a name counts as near.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().max(b.len()) > 64 {
        return usize::MAX;
    }
    if a.len() >= LEAST_BEGINNING && (b.starts_with(&a) || b.split(|letter| *letter == '_').any(|word| *word == *a)) {
        return 1;
    }
    let (mut before, mut last): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=b.len()).collect());
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}
