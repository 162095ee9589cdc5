//! Hostile input files through the command: one error line, no abort, no blocking, bounded memory, and no rows
//! in the table.

use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::files::{Ran, Workdir};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Float64Array, Int32Array, RecordBatch, StringArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use flate2::Compression;
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;

/// Memory limit in KiB. It covers threads, the engine's memory and a few buffers of 64 MiB, but not the
/// inflated contents of the files here.
const MEMORY_KIB: u64 = 3 << 20;

/// The exit code shows if it exceeds the limits.
fn bounded(workdir: &Workdir, arguments: &str) -> Ran {
    let command = workdir.command(arguments);
    let mut shell = std::process::Command::new("sh");
    let script = format!("ulimit -d {MEMORY_KIB}; exec timeout -s KILL 120 \"$0\" \"$@\"");
    shell.arg("-c").arg(script).arg(command.get_program()).args(command.get_args());
    shell.current_dir(workdir.path("")).stdin(Stdio::null());
    shell.output().unwrap().into()
}

/// Asserts a refusal with these words, and that the table still has its one row.
#[track_caller]
fn refused(workdir: &Workdir, file: &str, options: &str, parts: &[&str]) {
    workdir.write("first.csv", "x,kind\n1.5,a\n");
    if !workdir.path("t").exists() {
        workdir.run("ingest t first.csv --dimensions x").ok();
    }
    bounded(workdir, &format!("ingest t {file} {options}")).fails(2, &[&[file][..], parts].concat());
    assert_eq!(workdir.run("query t --count").ok().out, "1\n");
}

fn gzip(workdir: &Workdir, name: &str, write: impl Fn(&mut dyn Write)) {
    let mut gzip = GzEncoder::new(std::fs::File::create(workdir.path(name)).unwrap(), Compression::fast());
    write(&mut gzip);
    gzip.finish().unwrap();
}

fn mebibytes(out: &mut dyn Write, byte: u8, count: usize) {
    let block = vec![byte; 1 << 20];
    (0..count).for_each(|_| out.write_all(&block).unwrap());
}

#[test]
fn text_without_names_and_between_blanks() {
    let workdir = Workdir::new();
    let columns = |table: &str| {
        let found = workdir.run(&format!("query {table} --order-by ra --format csv")).ok().out;
        found.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    workdir.write("a.csv", "1,0.5,-3\n2,1.5,4\n");
    let expected =
        "a.csv: the first line holds numbers, and names of columns are expected: read option names gives them";
    workdir.run("ingest t a.csv --dimensions ra").fails(2, &[expected]);
    workdir.run("ingest t a.csv --dimensions ra --read names=hip,ra,dec").ok();
    assert_eq!(columns("t"), ["hip,ra,dec", "1,0.5,-3", "2,1.5,4"]);
    workdir
        .run("ingest u a.csv --dimensions ra --read names=hip,ra")
        .fails(2, &["a.csv: 2 names were given, and the first line has 3 fields"]);
    workdir.run("ingest u a.csv --dimensions ra --read names=ra,ra,dec").fails(2, &["two columns are named \"ra\""]);
    // Like astronomical catalogues, and with column names.
    workdir.write("hip.dat", "     1   0.5  -3  \n\t 2\t 1.5   4\n\n");
    let expected = "hip.dat: the first line holds numbers between blanks, and names of columns are expected";
    workdir.run("ingest v hip.dat --dimensions ra").fails(2, &[expected, "read option delimiter=space"]);
    workdir.run("ingest v hip.dat --dimensions ra --read delimiter=space --read names=hip,ra,dec").ok();
    assert_eq!(columns("v"), columns("t"));
    workdir.write("named.txt", "hip  ra    kind\n1  0.5  \"two  words\"\n2 1.5 x\n");
    workdir.run("ingest w named.txt --dimensions ra --read delimiter=space").ok();
    assert_eq!(columns("w"), ["hip,ra,kind", "1,0.5,two  words", "2,1.5,x"]);
    gzip(&workdir, "hip.dat.gz", |out| (0..70_000).for_each(|row| writeln!(out, "  {row}   0.25  7").unwrap()));
    workdir.run("ingest x hip.dat.gz --dimensions ra --read delimiter=space --read names=hip,ra,dec").ok();
    assert_eq!(workdir.run("query x --count").ok().out, "70000\n");
    workdir.write("short.dat", "1 2 3\n4 5\n");
    workdir
        .run("ingest y short.dat --dimensions b --read delimiter=space --read names=a,b,c")
        .fails(2, &["short.dat", "incorrect number of fields", "expected 3 got 2"]);
    workdir.run("ingest y a.csv --read delimiter=;;").fails(2, &["one ASCII character, tab, or space"]);
}

#[test]
fn text_that_inflates_without_end() {
    let workdir = Workdir::new();
    gzip(&workdir, "lines.csv.gz", |out| {
        out.write_all(b"x,kind\n").unwrap();
        let lines = format!("1,{}\n", "a".repeat(1000)).repeat(1000);
        (0..300).for_each(|_| out.write_all(lines.as_bytes()).unwrap());
    });
    refused(&workdir, "lines.csv.gz", "", &["max_inflation"]);
    gzip(&workdir, "blank.csv.gz", |out| {
        out.write_all(b"x,kind\n").unwrap();
        mebibytes(out, b'\n', 300);
    });
    refused(&workdir, "blank.csv.gz", "", &["max_inflation"]);
    gzip(&workdir, "header.csv.gz", |out| mebibytes(out, b'a', 100));
    refused(&workdir, "header.csv.gz", "", &["line 1", "max_record"]);
    gzip(&workdir, "quote.csv.gz", |out| {
        out.write_all(b"x,kind\n1,a\n2,\"b\n").unwrap();
        mebibytes(out, b'\n', 100);
    });
    refused(&workdir, "quote.csv.gz", "", &["quotes that begin in line 3", "max_record"]);
}

#[test]
fn quotes_that_never_close() {
    let workdir = Workdir::new();
    for (name, text, line) in [
        ("a.csv", "x,kind\n2,b\n3,\"c\n4,d\n5,e\n", "line 3: a quote"),
        ("b.csv", "x,kind\r\n\"2\",b\r\n3,\"c\"\"\r\n", "line 3: a quote"),
        ("c.csv", "x,\"kind\n1,a\n", "line 1: a quote"),
        ("d.tsv", "x\tkind\n\n2\t\"b\n", "line 3: a quote"),
    ] {
        workdir.write(name, text);
        refused(&workdir, name, "", &[line, "never closes"]);
    }
    workdir.write("whole.csv", "x,kind\n2,\"b\nc\"\n3,\"d\"\"\"\n4,5\" pipe\n");
    workdir.run("ingest t whole.csv").ok();
    assert_eq!(workdir.run("query t --count").ok().out, "4\n");
}

#[test]
fn records_and_columns_beyond_the_limits() {
    let workdir = Workdir::new();
    let names: Vec<String> = (0..1_000_000).map(|column| format!("c{column}")).collect();
    workdir.write("wide.csv", names.join(",") + "\n" + &"1,".repeat(999_999) + "1\n");
    refused(&workdir, "wide.csv", "", &["max_columns"]);
    workdir.write("fields.csv", format!("x,kind\n{}\n", ",".repeat(5_000_000)));
    refused(&workdir, "fields.csv", "", &["line 2", "max_columns"]);
    workdir.write("long.csv", format!("x,kind\n1,{}\n", "a".repeat(20 << 20)));
    refused(&workdir, "long.csv", "", &["line 2", "max_record"]);
    workdir.write("some.csv", "x,kind\n2,a long line\n");
    refused(&workdir, "some.csv", "--read max_record=8", &["line 2", "max_record"]);
    workdir.run("ingest t some.csv --read max_record=1k").ok();
}

/// Refers many times to one stored value.
fn one_value(bytes: usize, rows: usize) -> RecordBatch {
    let value = "v".repeat(bytes);
    let values: ArrayRef = Arc::new(StringArray::from(vec![value.as_str()]));
    let kind = DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0; rows]), values);
    let x = Float64Array::from_iter_values((0..rows).map(|row| row as f64));
    RecordBatch::try_from_iter([("x", Arc::new(x) as ArrayRef), ("kind", Arc::new(kind))]).unwrap()
}

#[test]
fn a_long_value_that_is_used_a_hundred_thousand_times() {
    let workdir = Workdir::new();
    let batch = one_value(1 << 20, 100_000);
    workdir.save("shared.arrow", &batch);
    refused(&workdir, "shared.arrow", "", &["max_inflation"]);
    workdir.save("shared.arrows", &batch);
    refused(&workdir, "shared.arrows", "", &["max_inflation"]);
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_dictionary_page_size_limit(8 << 20)
        .set_statistics_enabled(parquet::file::properties::EnabledStatistics::None)
        .build();
    let file = std::fs::File::create(workdir.path("shared.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch.slice(0, 2000)).unwrap();
    writer.close().unwrap();
    refused(&workdir, "shared.parquet", "", &["max_inflation"]);
}

#[test]
fn every_bit_of_a_packed_arrow_file() {
    let workdir = Workdir::new();
    let x = Float64Array::from(vec![0.5; 500]);
    let kind = StringArray::from(vec!["kind"; 500]);
    let batch = RecordBatch::try_from_iter([("x", Arc::new(x) as ArrayRef), ("kind", Arc::new(kind))]).unwrap();
    for (name, codec) in [("lz4", CompressionType::LZ4_FRAME), ("zstd", CompressionType::ZSTD)] {
        let options = IpcWriteOptions::default().try_with_compression(Some(codec)).unwrap();
        let mut writer = FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        let whole = writer.into_inner().unwrap();
        // The declared inflated length of a buffer, where each bit matters.
        let at = whole.windows(8).position(|window| window == 4000i64.to_le_bytes()).unwrap();
        for bit in (24..64).step_by(3) {
            let mut damaged = whole.clone();
            damaged[at + bit / 8] ^= 1 << (bit % 8);
            workdir.write(&format!("{name}.arrow"), &damaged);
            refused(&workdir, &format!("{name}.arrow"), "", &[]);
        }
    }
}

#[test]
fn numpy_texts_of_a_quarter_of_a_megabyte() {
    let workdir = Workdir::new();
    let rows = 1500;
    let mut zip = Zip::default();
    zip.add("x", "<f8", rows, 8);
    zip.add("kind", "<U65536", rows, 4 * 65_536);
    workdir.write("texts.npz", zip.finish());
    refused(&workdir, "texts.npz", "", &["max_inflation"]);
    refused(&workdir, "texts.npz", "--read max_record=100k", &["max_record"]);
    let mut zip = Zip::default();
    zip.add("x", "<f8", 10, 8);
    zip.declared = 1 << 50;
    zip.add("kind", "<U4", 10, 16);
    workdir.write("long.npz", zip.finish());
    refused(&workdir, "long.npz", "", &["stated length"]);
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let workdir = Workdir::new();
    workdir.write("first.csv", "x\n1\n");
    workdir.run("ingest t first.csv --dimensions x").ok();
    let pipe = workdir.path("pipe.csv");
    let owner = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, owner, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(workdir.path("socket.csv")).unwrap();
    std::os::unix::fs::symlink(&pipe, workdir.path("link.csv")).unwrap();
    let begin = Instant::now();
    for (file, output) in [
        ("pipe.csv", "a pipe"),
        ("socket.csv", "a socket"),
        ("link.csv", "a pipe"),
        ("/dev/zero", "a device"),
        ("/dev/stdin", "not a regular file"),
    ] {
        bounded(&workdir, &format!("ingest t {file}")).fails(2, &[file, output]);
    }
    bounded(&workdir, "model advise pipe.csv --nodes 16").fails(2, &["pipe.csv"]);
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn names_and_values_do_nothing_to_the_terminal() {
    let workdir = Workdir::new();
    let esc = "\u{1b}]0;owned\u{7}\u{1b}[31m\u{202e}\u{9b}2J";
    let name = format!("bad{esc}");
    let acts = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    let tame = |text: &str| {
        assert!(text.contains("\\u{1b}"), "{text:?}");
        assert!(!text.contains(acts), "{text:?}");
    };
    workdir.write("evil.csv", format!("x,{name}\n1,{esc}value\n2,b\n"));
    let unit = format!("units=x=m{esc}");
    let set = format!("metadata=key{esc}=value{esc}\nline");
    let made = ["ingest", "t", "evil.csv", "--dimensions", "x", "--create", &unit, "--create", &set];
    workdir.run_of(&made).ok();
    tame(&workdir.run("info t").ok().out);
    tame(&workdir.run("query t --format table").ok().out);
    tame(&workdir.run_of(&["query", "t", "--where", &format!("\"{name}\" = 1")]).fails(2, &[]).err);
    tame(&workdir.run_of(&["query", "t", "--columns", &name[..6]]).fails(2, &[]).err);
    tame(&workdir.run_of(&["ingest", "t", &format!("no{esc}.csv")]).fails(2, &[]).err);
    let wrong = workdir.run_of(&["info", "t", &format!("--{esc}")]).fails(2, &[]).err;
    assert!(!wrong.contains(acts), "{wrong:?}");
    workdir.write("other.csv", format!("x,other{esc}\n1,2\n"));
    tame(&workdir.run("ingest t other.csv").ok().err);
    let csv = workdir.run("query t --limit 9").ok();
    assert!(csv.out.contains(&format!("{esc}value")), "{:?}", csv.out);
    let json = workdir.run("info t --json").ok().json();
    assert_eq!(json["columns"][1]["name"], name);
}

#[test]
fn passwords_are_in_no_message() {
    let workdir = Workdir::new();
    workdir.write("first.csv", "x\n1\n");
    for arguments in [
        "info cassandra://bob:s3cret@127.0.0.1:1/k/t?patience=1",
        "info cassandra://bob:s3cret@127.0.0.1:1/k",
        "info t cassandra://bob:s3cret@h/k/t",
        "info http://bob:s3cret@h/t",
        "info ssh://bob:s3cret@h/t",
        "ingest cassandra://bob:s3cret@127.0.0.1:1/k/t?patience=1 first.csv",
        "ingest t cassandra://bob:s3cret@h/k/t",
        "copy cassandra://bob:s3cret@127.0.0.1:1/k/t?patience=1 other",
        "view ssh://bob:s3cret@h/t",
        "view ssh://bob@h/t ssh://bob:s3cret@other/t",
        "view cassandra://bob:s3cret@127.0.0.1:1/k/t?patience=1",
    ] {
        let ran = bounded(&workdir, arguments);
        assert_ne!(ran.code, 0, "{arguments}");
        assert!(!ran.err.contains("s3cret") && !ran.out.contains("s3cret"), "{}{}", ran.out, ran.err);
    }
}

#[derive(Default)]
struct Zip {
    body: Vec<u8>,
    directory: Vec<u8>,
    members: u16,
    /// The declared inflated size of the next member, if it differs from the real one.
    declared: u64,
}

impl Zip {
    fn add(&mut self, name: &str, descr: &str, rows: usize, row_bytes: usize) {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({rows},), }}\n");
        let mut head = b"\x93NUMPY\x01\x00".to_vec();
        head.extend((header.len() as u16).to_le_bytes());
        head.extend(header.as_bytes());
        let (mut crc, mut length) = (flate2::Crc::new(), 0u64);
        let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), Compression::fast());
        let block = vec![0; 1 << 20];
        let mut put = |bytes: &[u8]| {
            crc.update(bytes);
            length += bytes.len() as u64;
            deflate.write_all(bytes).unwrap();
        };
        put(&head);
        let mut left = rows * row_bytes;
        while left > 0 {
            put(&block[..left.min(block.len())]);
            left -= left.min(block.len());
        }
        let packed = deflate.finish().unwrap();
        let says = if self.declared > 0 { self.declared } else { length };
        let name = format!("{name}.npy");
        let mut common = vec![45u8, 0, 0, 0, 8, 0, 0, 0, 0x21, 0];
        common.extend(crc.sum().to_le_bytes());
        common.extend((packed.len() as u32).to_le_bytes());
        common.extend(u32::MAX.to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend(12u16.to_le_bytes());
        let mut extra = vec![1, 0, 8, 0];
        extra.extend(says.to_le_bytes());
        self.directory.extend(b"PK\x01\x02\x2d\x00");
        self.directory.extend(&common);
        self.directory.extend([0; 10]);
        self.directory.extend((self.body.len() as u32).to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.directory.extend(&extra);
        self.body.extend(b"PK\x03\x04");
        self.body.extend(&common);
        self.body.extend(name.as_bytes());
        self.body.extend(&extra);
        self.body.extend(&packed);
        self.members += 1;
    }

    fn finish(self) -> Vec<u8> {
        let mut file = self.body;
        let offset = file.len() as u32;
        file.extend(&self.directory);
        file.extend(b"PK\x05\x06\0\0\0\0");
        file.extend(self.members.to_le_bytes());
        file.extend(self.members.to_le_bytes());
        file.extend((self.directory.len() as u32).to_le_bytes());
        file.extend(offset.to_le_bytes());
        file.extend([0, 0]);
        file
    }
}
