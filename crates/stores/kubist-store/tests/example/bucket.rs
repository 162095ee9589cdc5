//! A store on a bucket: a service that stores values by key, with a put that fails if the key is taken.
use std::{collections::BTreeMap, ops::Range, sync::Arc, sync::Mutex, time::Duration};
use bytes::Bytes;
use kubist_store::{names::*, *};

/// The map simulates the service: `object/NAME`, `segment/NAME`, `claim/WRITER`, `log/WRITER/POSITION`.
#[derive(Debug, Clone, Default)]
pub struct Bucket { pub location: String, pub values: Arc<Mutex<BTreeMap<String, Bytes>>> }

impl Bucket {
    fn put(&self, key: String, value: &[u8]) -> bool {
        let mut values = self.values.lock().unwrap();
        !values.contains_key(&key) && values.insert(key, Bytes::copy_from_slice(value)).is_none()
    }
    fn value(&self, key: &str) -> Option<Bytes> { self.values.lock().unwrap().get(key).cloned() }
    /// The keys that begin with `prefix`, in order and without it, and their values.
    fn below(&self, prefix: &str) -> Vec<(String, Bytes)> {
        let values = self.values.lock().unwrap();
        let found = values.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        found.map(|(key, value)| (key[prefix.len()..].to_owned(), value.clone())).collect()
    }
    fn remove(&self, key: &str) { self.values.lock().unwrap().remove(key); }
}

/// An entry's key. A log has the keys from 0 on without a gap.
fn position(writer: &str, number: u64) -> String { format!("log/{writer}/{number:020}") }

impl Store for Bucket {
    fn location(&self) -> &str { &self.location }
    fn capabilities(&self) -> Capabilities {
        let (locality, latency) = (Locality::Here, Latency::Network);
        let fencing = Fencing::Claim { lapse: Duration::from_secs(30) };
        Capabilities { locality, latency, fencing, staleness: Duration::ZERO, punches: false }
    }
    fn put_if_absent(&self, name: &str, value: &[u8]) -> Result<bool> {
        check_object(name)?;
        let taken = |(slash, _): (usize, &str)| self.value(&format!("object/{}", &name[..slash])).is_some();
        match name.match_indices('/').any(taken) || !self.below(&format!("object/{name}/")).is_empty() {
            true => Err(object_and_folder(name)),
            false => Ok(self.put(format!("object/{name}"), value)),
        }
    }
    fn get(&self, name: &str) -> Result<Option<Bytes>> { check_object(name)?; Ok(self.value(&format!("object/{name}"))) }
    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let found = self.below(&format!("object/{prefix}")).into_iter();
        Ok(found.map(|(rest, _)| format!("{prefix}{rest}")).collect())
    }
    fn delete(&self, name: &str) -> Result<()> { check_object(name).map(|()| self.remove(&format!("object/{name}"))) }
    fn create_segment(&self, name: &str) -> Result<Box<dyn Segment>> {
        check_part(name)?;
        match self.put(format!("segment/{name}"), b"") {
            true => Ok(Box::new(Writing { bucket: self.clone(), name: name.into(), bytes: Vec::new() })),
            false => Err(Error::Exists { file: format!("{}/segment/{name}", self.location) }),
        }
    }
    fn read(&self, segment: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        check_part(segment)?;
        let file = format!("{}/segment/{segment}", self.location);
        let Some(whole) = self.value(&format!("segment/{segment}")) else { return Err(Error::Missing { file }) };
        let outside = |range: &&Range<u64>| range.start > range.end || range.end > whole.len() as u64;
        if let Some(range) = ranges.iter().find(outside) {
            return Err(Error::Damaged { file, offset: range.start, what: "these bytes are not there".into() });
        }
        Ok(ranges.iter().map(|range| whole.slice(range.start as usize..range.end as usize)).collect())
    }
    fn segment_len(&self, segment: &str) -> Result<Option<u64>> {
        check_part(segment).map(|()| self.value(&format!("segment/{segment}")).map(|bytes| bytes.len() as u64))
    }
    fn segments(&self) -> Result<Vec<String>> { Ok(self.below("segment/").into_iter().map(|(name, _)| name).collect()) }
    fn delete_segment(&self, segment: &str) -> Result<()> {
        check_part(segment).map(|()| self.remove(&format!("segment/{segment}")))
    }
    fn own_log(&self, writer: &str) -> Result<Box<dyn LogOwner>> {
        check_part(writer)?;
        // A real store renews its claim, and takes one that was not renewed for 30 s.
        if !self.put(format!("claim/{writer}"), b"") {
            return Err(Error::Busy { writer: writer.into(), file: format!("{}/log/{writer}", self.location) });
        }
        let mut next = self.below(&format!("log/{writer}/")).len() as u64;
        // The fence: an earlier owner that was only slow finds its next key taken.
        while !self.put(position(writer, next), b"fence") { next += 1 }
        let end = self.read_log(writer, 0)?.next;
        Ok(Box::new(Owned { bucket: self.clone(), writer: writer.into(), next: next + 1, end, lost: false }))
    }
    fn logs(&self) -> Result<Vec<String>> {
        let (keys, first) = (self.below("log/"), format!("/{:020}", 0));
        Ok(keys.iter().filter_map(|(key, _)| key.strip_suffix(&first).map(String::from)).collect())
    }
    fn read_log(&self, writer: &str, from: u64) -> Result<LogTail> {
        check_part(writer)?;
        let (found, file) = (self.below(&format!("log/{writer}/")), format!("{}/log/{writer}", self.location));
        if found.is_empty() { return Err(Error::Missing { file }) }
        let mut tail = LogTail { entries: Vec::new(), next: from, durable: from };
        for (number, (_, value)) in (0..).zip(&found).skip(from as usize) {
            // A fence belongs to the entry after it, so an entry's end never changes.
            if value.starts_with(b"entry") {
                tail.entries.push(LogEntry { position: tail.next, bytes: value.slice(5..) });
                (tail.next, tail.durable) = (number + 1, number + 1);
            }
        }
        Ok(tail)
    }
    fn sizes(&self) -> Result<Vec<Size>> {
        let kinds = [("object/", StoredKind::Object), ("segment/", StoredKind::Segment), ("log/", StoredKind::Log)];
        let all = kinds.iter().flat_map(|(folder, kind)| self.below(folder).into_iter().map(|found| (*kind, found)));
        let name = |kind, key: &str| if kind == StoredKind::Log { key[..key.len() - 21].into() } else { key.into() };
        Ok(all.map(|(kind, (key, value))| Size { kind, name: name(kind, &key), bytes: value.len() as u64 }).collect())
    }
    fn erase(&self, objects: &[String]) -> Result<()> {
        let stays = |key: &str| key.strip_prefix("object/").is_some_and(|name| objects.iter().all(|ours| ours != name));
        self.values.lock().unwrap().retain(|key, _| stays(key));
        Ok(())
    }
}

struct Writing { bucket: Bucket, name: String, bytes: Vec<u8> }
impl Segment for Writing {
    fn append(&mut self, parts: &[&[u8]]) -> Result<u64> {
        let offset = self.len();
        self.bytes.extend(parts.concat());
        Ok(offset)
    }
    fn sync(&mut self) -> Result<()> {
        let mut values = self.bucket.values.lock().unwrap();
        values.entry(format!("segment/{}", self.name)).and_modify(|value| *value = self.bytes.clone().into());
        Ok(())
    }
    fn len(&self) -> u64 { self.bytes.len() as u64 }
    fn name(&self) -> &str { &self.name }
}

struct Owned { bucket: Bucket, writer: String, next: u64, end: u64, lost: bool }
impl LogOwner for Owned {
    fn append(&mut self, entry: &[u8]) -> Result<u64> {
        let (key, file) = (position(&self.writer, self.next), format!("{}/{}", self.bucket.location, self.writer));
        self.lost |= !self.bucket.put(key, &[b"entry", entry].concat());
        if self.lost { return Err(Error::Refused { file, cause: "another owner has taken the log".into() }) }
        (self.next, self.end) = (self.next + 1, self.next + 1);
        Ok(self.end)
    }
    fn position(&self) -> u64 { self.end }
    fn writer(&self) -> &str { &self.writer }
}

impl Drop for Owned {
    fn drop(&mut self) { if !self.lost { self.bucket.remove(&format!("claim/{}", self.writer)) } }
}
