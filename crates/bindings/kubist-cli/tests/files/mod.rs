//! Small particle files in every format, and runs of the program on them.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{ArrayRef, BooleanArray, Float32Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_select::concat::concat_batches;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    #[track_caller]
    pub fn ok(self) -> Ran {
        assert_eq!(self.code, 0, "{}\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub fn fails(self, code: i32, parts: &[&str]) -> Ran {
        assert_eq!(self.code, code, "{}\n{}", self.out, self.err);
        let errors: Vec<&str> = self.err.lines().filter(|line| line.starts_with("kubist: error: ")).collect();
        assert_eq!(errors.len(), 1, "{}", self.err);
        assert!(self.err.ends_with(&format!("{}\n", errors[0])), "{}", self.err);
        for part in parts {
            assert!(errors[0].contains(part), "{part:?} in {:?}", errors[0]);
        }
        self
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }
}

pub struct Workdir {
    folder: tempfile::TempDir,
}

impl Workdir {
    pub fn new() -> Workdir {
        Workdir { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn command(&self, arguments: &str) -> Command {
        self.command_of(&arguments.split_whitespace().collect::<Vec<_>>())
    }

    pub fn command_of(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubist"));
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Arguments are split at spaces.
    pub fn run(&self, arguments: &str) -> Ran {
        self.command(arguments).output().unwrap().into()
    }

    pub fn run_of(&self, arguments: &[&str]) -> Ran {
        self.command_of(arguments).output().unwrap().into()
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub fn save(&self, name: &str, batch: &RecordBatch) {
        let file = File::create(self.path(name)).unwrap();
        match name.rsplit_once('.').unwrap().1 {
            "parquet" => {
                let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
                writer.write(batch).unwrap();
                writer.close().unwrap();
            }
            "arrow" => {
                let mut writer = FileWriter::try_new(file, &batch.schema()).unwrap();
                writer.write(batch).unwrap();
                writer.finish().unwrap();
            }
            "arrows" => {
                let mut writer = StreamWriter::try_new(file, &batch.schema()).unwrap();
                writer.write(batch).unwrap();
                writer.finish().unwrap();
            }
            "csv" => arrow_csv::Writer::new(file).write(batch).unwrap(),
            "npz" => save_npz(file, batch),
            ending => panic!("{ending}"),
        }
    }

    pub fn table(&self, name: &str, batch: &RecordBatch) {
        self.save("source.parquet", batch);
        self.run(&format!("ingest {name} source.parquet --dimensions x,y,z --identity pid")).ok();
    }

    pub fn parquet(&self, name: &str) -> RecordBatch {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(self.path(name)).unwrap()).unwrap();
        let schema = reader.schema().clone();
        let batches: Vec<RecordBatch> = reader.build().unwrap().collect::<Result<_, _>>().unwrap();
        concat_batches(&schema, &batches).unwrap()
    }

    pub fn arrow(&self, name: &str) -> RecordBatch {
        let file = File::open(self.path(name)).unwrap();
        let (schema, batches): (_, Vec<RecordBatch>) = if name.ends_with(".arrows") {
            let reader = StreamReader::try_new(file, None).unwrap();
            (reader.schema(), reader.collect::<Result<_, _>>().unwrap())
        } else {
            let reader = FileReader::try_new(file, None).unwrap();
            (reader.schema(), reader.collect::<Result<_, _>>().unwrap())
        };
        concat_batches(&schema, &batches).unwrap()
    }

    pub fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap());
        let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
        let mut names: Vec<String> = files.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub struct Particle {
    pub pid: i64,
    pub x: f32,
    pub y: f32,
    pub z: f32,
    pub kind: Option<String>,
    pub stuck: bool,
}

pub fn particles(first: i64, count: i64) -> RecordBatch {
    let pids = || first..first + count;
    // Weyl sequences: uniform, and the same on every machine.
    let spread = |factor: f64| -> ArrayRef {
        Arc::new(Float32Array::from_iter_values(pids().map(|pid| ((pid as f64 * factor).fract()) as f32)))
    };
    let kinds = ["water", "oil, heavy", "\"dust\""];
    let kind = pids().map(|pid| kinds.get(pid as usize % 4).copied());
    RecordBatch::try_from_iter_with_nullable([
        ("pid", Arc::new(Int64Array::from_iter_values(pids())) as ArrayRef, true),
        ("x", spread(0.618_033_988_749_895), true),
        ("y", spread(0.754_877_666_246_693), true),
        ("z", spread(0.569_840_290_998_053), true),
        ("kind", Arc::new(kind.collect::<StringArray>()), true),
        ("stuck", Arc::new(pids().map(|pid| Some(pid % 3 == 0)).collect::<BooleanArray>()), true),
    ])
    .unwrap()
}

pub fn rows(batch: &RecordBatch) -> Vec<Particle> {
    let column = |name: &str| batch.column_by_name(name).unwrap_or_else(|| panic!("no column {name}")).clone();
    let float = |name: &str| column(name).as_primitive::<Float32Type>().clone();
    let (x, y, z) = (float("x"), float("y"), float("z"));
    let (pid, kind, stuck) = (column("pid"), column("kind"), column("stuck"));
    let mut rows: Vec<Particle> = (0..batch.num_rows())
        .map(|row| Particle {
            pid: pid.as_primitive::<Int64Type>().value(row),
            x: x.value(row),
            y: y.value(row),
            z: z.value(row),
            kind: kind.as_string::<i32>().iter().nth(row).flatten().map(String::from),
            stuck: stuck.as_boolean().value(row),
        })
        .collect();
    rows.sort_by_key(|row| row.pid);
    rows
}

pub fn csv_column(text: &str, name: &str) -> Vec<f64> {
    let reader = arrow_csv::ReaderBuilder::new(Arc::new(
        arrow_csv::reader::Format::default().with_header(true).infer_schema(text.as_bytes(), None).unwrap().0,
    ));
    let batches = reader.with_header(true).build(text.as_bytes()).unwrap();
    let values = batches.flat_map(|batch| {
        let batch = batch.unwrap();
        let column = arrow_cast::cast(batch.column_by_name(name).unwrap(), &arrow_schema::DataType::Float64).unwrap();
        column.as_primitive::<arrow_array::types::Float64Type>().values().to_vec()
    });
    values.collect()
}

/// An uncompressed NPZ file of the columns that NumPy supports, with `x`, `y`, `z` as one array of shape (n, 3)
/// unless `u_0` is requested.
fn save_npz(mut file: File, batch: &RecordBatch) {
    let (mut body, mut directory, mut members) = (Vec::new(), Vec::new(), 0u16);
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let count = batch.num_rows();
        let (descr, data): (String, Vec<u8>) = match column.data_type() {
            arrow_schema::DataType::Int64 => {
                let values = column.as_primitive::<Int64Type>().values().iter();
                ("<i8".into(), values.flat_map(|value| value.to_le_bytes()).collect())
            }
            arrow_schema::DataType::Float32 => {
                let values = column.as_primitive::<Float32Type>().values().iter();
                ("<f4".into(), values.flat_map(|value| value.to_le_bytes()).collect())
            }
            arrow_schema::DataType::Boolean => {
                let values = column.as_boolean().iter();
                ("|b1".into(), values.map(|value| u8::from(value.unwrap())).collect())
            }
            _ => continue,
        };
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({count},), }}\n");
        let mut member = b"\x93NUMPY\x01\x00".to_vec();
        member.extend((header.len() as u16).to_le_bytes());
        member.extend(header.as_bytes());
        member.extend(data);
        let name = format!("{}.npy", field.name());
        let mut crc = flate2::Crc::new();
        crc.update(&member);
        let mut common = Vec::new();
        common.extend([20u8, 0, 0, 0, 0, 0, 0, 0, 0x21, 0]);
        common.extend(crc.sum().to_le_bytes());
        common.extend((member.len() as u32).to_le_bytes());
        common.extend((member.len() as u32).to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend((body.len() as u32).to_le_bytes());
        directory.extend(name.as_bytes());
        body.extend(b"PK\x03\x04");
        body.extend(&common);
        body.extend(name.as_bytes());
        body.extend(&member);
        members += 1;
    }
    file.write_all(&body).unwrap();
    file.write_all(&directory).unwrap();
    file.write_all(b"PK\x05\x06\0\0\0\0").unwrap();
    file.write_all(&members.to_le_bytes()).unwrap();
    file.write_all(&members.to_le_bytes()).unwrap();
    file.write_all(&(directory.len() as u32).to_le_bytes()).unwrap();
    file.write_all(&(body.len() as u32).to_le_bytes()).unwrap();
    file.write_all(&[0, 0]).unwrap();
}

pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}
