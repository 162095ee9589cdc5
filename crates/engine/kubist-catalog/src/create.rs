//! Creation of a table: checks the options first, needs a free location, and writes the header once.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use arrow_schema::{DataType, Field, SchemaRef};
use kubist_expr::{Meant, Value, column_index, in_unit_of};
use kubist_index::grid::Scale;
use kubist_index::order;
use kubist_store::{Fencing, Store, StoreExt};

use kubist_format::header::{self, FORMAT_VERSION, Header, HeaderDimension};
use kubist_format::names::TABLE;
use kubist_types::{Cancel, Domain, Error, Result, Strata, TableOptions};

use crate::accuracy::accuracy_of;
use crate::alter;
use crate::core::Core;
use crate::error::store_error;
use crate::period::{with_periods, with_sphere};
use crate::schema::TableSchema;
use crate::segment::unix_ms;

const DEFAULT_CAPACITY: u32 = 2048;
/// The default with strata of windows: a window of 1/128 has enough rows in each run.
const CAPACITY_OF_WINDOWS: u32 = 65_536;

/// Creates a table in an empty store; with `exist_ok`, also opens a table that agrees with the plan.
///
/// # Errors
///
/// `Exists` if a table is there and `exist_ok` is false or the plan differs; `Damaged`; `Newer`; a storage error.
pub fn make(store: Arc<dyn Store>, plan: Plan, exist_ok: bool) -> Result<Arc<Core>> {
    // Set before the table exists, so that no writer ever relies on a file lock.
    if plan.shared && store.get(TABLE).map_err(store_error)?.is_none() {
        store.share().map_err(store_error)?;
    }
    let bytes = header::encode_header(&plan.header, &plan.schema.user).map_err(Error::invalid)?;
    if !store.put_if_absent(TABLE, &bytes).map_err(store_error)? {
        let core = Core::open(store, &Cancel::default())?;
        if exist_ok {
            core.agrees(&plan)?;
            return Ok(core);
        }
        let why = "a table is there; open it, or create with exist_ok, which keeps its rows".into();
        return Err(Error::Exists { location: core.store.location().into(), why });
    }
    let core = Core::with(store, plan.header, plan.schema)?;
    if let Some(scales) = plan.scales {
        core.publish_grid(&scales)?;
    }
    Ok(core)
}

impl Core {
    /// # Errors
    ///
    /// `Exists` names the first difference.
    pub fn agrees(&self, plan: &Plan) -> Result<()> {
        let (own, other) = (&self.header, &plan.header);
        let schema = &self.view(&Cancel::default())?.schema;
        let what = if !schema.agrees(&plan.schema) {
            "columns"
        } else if own.dimensions != other.dimensions {
            "dimensions or domains"
        } else if own.identity != other.identity {
            "identity"
        } else if own.lookup != other.lookup {
            "lookup"
        } else if !schema.agrees_on_accuracy(&plan.schema) {
            "accuracy bounds"
        } else if !plan.schema.periods().is_empty() && schema.periods() != plan.schema.periods() {
            "periods"
        } else if own.sampling != other.sampling {
            "weight or strata of samples"
        } else if own.seed != other.seed {
            "seed"
        } else if own.capacity != other.capacity {
            "capacity"
        } else if own.replication != other.replication {
            "replication"
        } else if plan.shared && self.store.capabilities().fencing == Fencing::Lock {
            let why = "it is not shared: `kubist alter --shared` makes it so".into();
            return Err(Error::Exists { location: self.store.location().into(), why });
        } else {
            return Ok(());
        };
        let why = format!("its {what} differ from what was asked for");
        Err(Error::Exists { location: self.store.location().into(), why })
    }
}

pub struct Plan {
    pub header: Header,
    pub schema: TableSchema,
    /// The scales of the first grid; `None` if a domain must be learned from data.
    pub scales: Option<Vec<Scale>>,
    pub shared: bool,
}

impl Plan {
    /// # Errors
    ///
    /// `Invalid` names the option or the column that is not possible.
    pub fn new(schema: &SchemaRef, options: &TableOptions) -> Result<Plan> {
        let options = &in_own_names(schema, options);
        let schema = with_periods(&alter::with_units(schema, &options.units)?, &options.period)?;
        let schema = with_sphere(&schema, options.sphere.as_ref())?;
        alter::check_metadata(&options.metadata)?;
        let checked = TableSchema::new(&schema, options)?;
        options.capacity.map_or(Ok(()), check_capacity)?;
        let mut scales = Vec::new();
        let mut dimensions = Vec::new();
        for (dimension, column) in options.dimensions.iter().zip(&checked.dimensions) {
            let name = &dimension.column;
            let data_type = checked.stored.field(*column).data_type();
            let scale = scale_of(&checked.with_unit(*column), data_type, &dimension.domain)?;
            let kind = if dimension.domain == Domain::Quantile { "quantile" } else { "linear" };
            let domain = scale.as_ref().map(Scale::domain);
            scales.extend(scale);
            dimensions.push(HeaderDimension { column: name.clone(), scale: kind.into(), domain });
        }
        let mut accuracy = BTreeMap::new();
        for (name, bound) in &options.accuracy {
            let column = checked.column(name)?;
            if accuracy.insert(name.clone(), accuracy_of(&checked.with_unit(column), bound)?).is_some() {
                return Err(Error::invalid(format!("the accuracy of column {name:?} is given twice")));
            }
        }
        let checked = checked.with_accuracy(&accuracy)?;
        let header = Header {
            format_version: FORMAT_VERSION,
            created_by: format!("kubist {}", env!("CARGO_PKG_VERSION")),
            dimensions,
            identity: options.identity.clone(),
            capacity: options.capacity.unwrap_or_else(|| default_capacity(options.strata)),
            seed: options.seed,
            id: fresh_id(),
            replication: options.replication,
            compression: options.compression,
            strata: options.strata,
            sampling: checked.sampling.clone(),
            lookup: options.lookup.clone(),
            accuracy,
            writer_tag: String::new(),
            metadata: options.metadata.clone(),
        };
        let scales = (scales.len() == options.dimensions.len()).then_some(scales);
        Ok(Plan { header, schema: checked, scales, shared: options.shared })
    }
}

/// Spells column names as in the schema; unknown names stay unchanged.
fn in_own_names(schema: &SchemaRef, options: &TableOptions) -> TableOptions {
    let mut options = options.clone();
    let own = |name: &mut String| {
        if let Ok(index) = column_index(schema, name) {
            schema.field(index).name().clone_into(name);
        }
    };
    options.dimensions.iter_mut().for_each(|dimension| own(&mut dimension.column));
    options.identity.iter_mut().chain(&mut options.lookup).for_each(own);
    options.units.iter_mut().for_each(|(column, _)| own(column));
    options.period.iter_mut().for_each(|(column, _)| own(column));
    options.sphere.iter_mut().flatten().for_each(own);
    options.accuracy.iter_mut().for_each(|(column, _)| own(column));
    options
}

pub fn default_capacity(strata: Strata) -> u32 {
    match strata {
        Strata::Halvings => DEFAULT_CAPACITY,
        Strata::Windows => CAPACITY_OF_WINDOWS,
    }
}

/// The capacity is 16 to 1,048,576 rows.
///
/// # Errors
///
/// `Invalid`.
pub fn check_capacity(capacity: u32) -> Result<()> {
    match (16..=1 << 20).contains(&capacity) {
        true => Ok(()),
        false => Err(Error::invalid(format!("a cube's capacity is 16 to 1048576 records, found {capacity}"))),
    }
}

/// The scale of a domain; `None` if it must be learned. `column` has the unit of its values, which are stored as
/// `data_type`.
///
/// # Errors
///
/// `Invalid` if a bound is not a value of the column's type, or the bounds make no domain.
pub fn scale_of(column: &Field, data_type: &DataType, domain: &Domain) -> Result<Option<Scale>> {
    let Domain::Linear(low, high) = domain else { return Ok(None) };
    let name = column.name();
    let end = |value: &Value| match value {
        Value::Text(text) => match in_unit_of(column, text, Meant::Value) {
            Ok(Some(number)) => Ok(number),
            Ok(None) => domain_end(name, data_type, value),
            Err(error) => Err(Error::invalid(format!("dimension {name:?}: {error}"))),
        },
        value => domain_end(name, data_type, value),
    };
    let (low, high) = (end(low)?, end(high)?);
    let scale = Scale::linear(low, high).map_err(|error| Error::invalid(format!("dimension {name:?}: {error}")))?;
    Ok(Some(scale))
}

pub fn fresh_id() -> String {
    format!("{:016x}", RandomState::new().hash_one(unix_ms()))
}

fn domain_end(name: &str, data_type: &DataType, value: &Value) -> Result<f64> {
    match value {
        Value::Int(value) => Ok(*value as f64),
        Value::Float(value) => Ok(*value),
        Value::Text(text) => {
            let (low, _) = kubist_expr::key_range(data_type, Some(value), None)?.ok_or_else(|| {
                Error::invalid(format!("dimension {name:?}: {text:?} is not a value of the type {data_type}"))
            })?;
            Ok(order::number(data_type, low))
        }
        other => Err(Error::invalid(format!("dimension {name:?}: {other:?} cannot be the end of a domain"))),
    }
}
