//! Measures a catalogue of many entries at five sites: adding, exchange, opening, and search. Run with
//! `cargo run --release -p kubist-names --example large -- [ENTRIES] [FOLDER]`.

use std::time::Instant;

use kubist_names::{Catalogue, New, Scalar, Search, Setting, sync};

const SITES: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let entries: usize = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let folder = arguments.next().unwrap_or_else(|| "/tmp/kubist-large-catalogue".into());
    let path = |site: usize| format!("{folder}/site-{site}");
    let mut sites = Vec::new();
    for site in 0..SITES {
        sites.push(Catalogue::create(&path(site), Some(&format!("site-{site}")))?);
    }
    let start = Instant::now();
    for (site, catalogue) in sites.iter_mut().enumerate() {
        let new: Vec<New> = (site..entries).step_by(SITES).map(entry).collect();
        catalogue.add(&new)?;
    }
    println!("{entries} entries added at {SITES} sites: {:.2?}", start.elapsed());

    let start = Instant::now();
    let mut bytes = 0;
    for _ in 0..2 {
        for other in 1..SITES {
            let (first, rest) = sites.split_at_mut(1);
            bytes += sync(&mut first[0], &mut rest[other - 1])?.bytes;
        }
    }
    println!("exchanged through one site, twice: {:.2?}, {:.1} MB", start.elapsed(), bytes as f64 / 1e6);

    // Concurrent changes of the same entries, and an exchange of these only.
    for (site, catalogue) in sites.iter_mut().enumerate() {
        for number in 0..10 {
            catalogue.set(&name(number), &[Setting::Note(format!("from site {site}"))])?;
        }
        catalogue.remove(&name(100 + site))?;
    }
    let (start, mut bytes) = (Instant::now(), 0);
    for _ in 0..2 {
        for other in 1..SITES {
            let (first, rest) = sites.split_at_mut(1);
            bytes += sync(&mut first[0], &mut rest[other - 1])?.bytes;
        }
    }
    println!("55 concurrent changes exchanged: {:.2?}, {} bytes", start.elapsed(), bytes);

    let mut all = Vec::new();
    for site in 0..SITES {
        let start = Instant::now();
        let catalogue = Catalogue::open(&path(site))?;
        println!("site {site} opened: {:.2?}, {} names", start.elapsed(), catalogue.len());
        all.push(catalogue);
    }
    let listed = |catalogue: &Catalogue| -> Vec<_> { catalogue.names().map(|name| catalogue.get(name).ok()).collect() };
    let first = listed(&all[0]);
    println!("all sites are equal: {}", all.iter().all(|catalogue| listed(catalogue) == first));
    println!("values of a note that five sites wrote: {}", all[0].get(&name(0))?.note.len());

    let catalogue = &mut all[0];
    let start = Instant::now();
    catalogue.prepare();
    println!("columns for the search: {:.2?}", start.elapsed());
    for condition in
        ["Re > 2000 and tag = \"final\"", "solver like 'al%' and not owner = 'ada'", "name = 'airway/run-000017'"]
    {
        let wanted = Search { condition: Some(condition.into()), text: None };
        let start = Instant::now();
        let found = catalogue.find(&wanted)?;
        println!("{condition}: {:.2?}, {} names", start.elapsed(), found.len());
    }
    let start = Instant::now();
    let found = catalogue.find(&Search { condition: None, text: Some("lagoon run-0000".into()) })?;
    println!("words: {:.2?}, {} names", start.elapsed(), found.len());
    let start = Instant::now();
    let bytes = catalogue.prune()?;
    println!("pruned: {:.2?}, {} lines, waits for {:?}", start.elapsed(), bytes.lines, bytes.waits_for);
    let start = Instant::now();
    println!("opened from the checkpoint: {} names, {:.2?}", Catalogue::open(&path(0))?.len(), start.elapsed());
    Ok(())
}

fn name(number: usize) -> String {
    format!("airway/run-{number:06}")
}

fn entry(number: usize) -> New {
    New {
        name: name(number),
        kind: Some("table".into()),
        owner: Some(["ada", "grace", "emmy"][number % 3].into()),
        note: Some(format!("geometry {} of the lagoon study", number % 977)),
        tags: vec![if number % 10 == 0 { "final" } else { "draft" }.into()],
        locations: vec![format!("/scratch/{}.kubist", name(number))],
        params: [
            ("Re".to_owned(), Scalar::Number((number % 4000) as f64)),
            ("solver".to_owned(), Scalar::Text(["alya", "openfoam"][number % 2].into())),
        ]
        .into(),
    }
}
