/// Forwards the named methods of `impl Store` to the store in a field.
macro_rules! forward {
    ($field:tt: $($name:ident)*) => {
        $(forward!(@$name $field);)*
    };
    (@capabilities $field:tt) => {
        fn capabilities(&self) -> kubist::store::Capabilities {
            self.$field.capabilities()
        }
    };
    (@abilities $field:tt) => {
        /// Only abilities that do not bypass this store.
        fn abilities(&self) -> kubist::store::Abilities<'_> {
            let kubist::store::Abilities { sharing, logs, spill, .. } = self.$field.abilities();
            kubist::store::Abilities { sharing, logs, spill, ..Default::default() }
        }
    };
    (@location $field:tt) => {
        fn location(&self) -> &str {
            self.$field.location()
        }
    };
    (@put_if_absent $field:tt) => {
        fn put_if_absent(&self, name: &str, value: &[u8]) -> kubist::store::Result<bool> {
            self.$field.put_if_absent(name, value)
        }
    };
    (@get $field:tt) => {
        fn get(&self, name: &str) -> kubist::store::Result<Option<bytes::Bytes>> {
            self.$field.get(name)
        }
    };
    (@list $field:tt) => {
        fn list(&self, prefix: &str) -> kubist::store::Result<Vec<String>> {
            self.$field.list(prefix)
        }
    };
    (@delete $field:tt) => {
        fn delete(&self, name: &str) -> kubist::store::Result<()> {
            self.$field.delete(name)
        }
    };
    (@create_segment $field:tt) => {
        fn create_segment(&self, name: &str) -> kubist::store::Result<Box<dyn kubist::store::Segment>> {
            self.$field.create_segment(name)
        }
    };
    (@read $field:tt) => {
        fn read(&self, segment: &str, ranges: &[std::ops::Range<u64>]) -> kubist::store::Result<Vec<bytes::Bytes>> {
            self.$field.read(segment, ranges)
        }
    };
    (@segment_len $field:tt) => {
        fn segment_len(&self, segment: &str) -> kubist::store::Result<Option<u64>> {
            self.$field.segment_len(segment)
        }
    };
    (@segments $field:tt) => {
        fn segments(&self) -> kubist::store::Result<Vec<String>> {
            self.$field.segments()
        }
    };
    (@delete_segment $field:tt) => {
        fn delete_segment(&self, segment: &str) -> kubist::store::Result<()> {
            self.$field.delete_segment(segment)
        }
    };
    (@own_log $field:tt) => {
        fn own_log(&self, writer: &str) -> kubist::store::Result<Box<dyn kubist::store::LogOwner>> {
            self.$field.own_log(writer)
        }
    };
    (@logs $field:tt) => {
        fn logs(&self) -> kubist::store::Result<Vec<String>> {
            self.$field.logs()
        }
    };
    (@read_log $field:tt) => {
        fn read_log(&self, writer: &str, from: u64) -> kubist::store::Result<kubist::store::LogTail> {
            self.$field.read_log(writer, from)
        }
    };
    (@sizes $field:tt) => {
        fn sizes(&self) -> kubist::store::Result<Vec<kubist::store::Size>> {
            self.$field.sizes()
        }
    };
    (@erase $field:tt) => {
        fn erase(&self, objects: &[String]) -> kubist::store::Result<()> {
            self.$field.erase(objects)
        }
    };
}

pub(crate) use forward;
