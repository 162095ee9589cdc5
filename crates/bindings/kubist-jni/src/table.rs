//! Tables and snapshots: create, open, describe.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_schema::{Field, Schema};
use jni_sys::{jbyteArray, jlong};
use kubist::{Declared, Dimension, Metadata, Snapshot, SnapshotToken, Table, TableOptions, Value};
use serde::{Deserialize, Serialize};

use crate::handles::{held, hold};
use crate::jvm::{Class, Env, Failure, Result, ended, hand_json_out, json, text};
use crate::plain::{Column, described};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewColumn {
    name: String,
    #[serde(rename = "type")]
    data_type: String,
    #[serde(default)]
    nullable: bool,
    unit: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    columns: Vec<NewColumn>,
    #[serde(deserialize_with = "kubist_types::dimensions_from_json")]
    dimensions: Vec<Dimension>,
    #[serde(default)]
    identity: Vec<String>,
    #[serde(default)]
    lookup: Vec<String>,
    capacity: Option<u32>,
    /// A number, or one with a unit or `rel`.
    #[serde(default)]
    accuracy: BTreeMap<String, String>,
    #[serde(default)]
    period: BTreeMap<String, String>,
    sphere: Option<[String; 2]>,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    metadata: Metadata,
}

impl Create {
    fn made_at(self, location: &str) -> Result<Table> {
        let (mut fields, mut units) = (Vec::new(), Vec::new());
        for column in self.columns {
            let named = |why: String| Failure::invalid(format!("column {:?}: {why}", column.name));
            // Also accepts Arrow's names, for decimals and time zones.
            let by_name = kubist_types::type_names::data_type(&column.data_type);
            let data_type = by_name.or_else(|why| column.data_type.parse().map_err(|_| named(why)))?;
            fields.push(Field::new(&column.name, data_type, column.nullable));
            units.extend(column.unit.map(|unit| (column.name, unit)));
        }
        let options = TableOptions {
            dimensions: self.dimensions,
            identity: self.identity,
            lookup: self.lookup,
            capacity: self.capacity,
            seed: self.seed,
            accuracy: self.accuracy.into_iter().map(|(column, bound)| (column, Value::Text(bound))).collect(),
            sphere: self.sphere,
            period: self.period.into_iter().map(|(column, period)| (column, Value::Text(period))).collect(),
            units,
            metadata: self.metadata,
            ..TableOptions::default()
        };
        Ok(Table::create(location, Arc::new(Schema::new(fields)), &options)?)
    }
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_tableCreate(
    env: Env,
    _: Class,
    location: jbyteArray,
    options: jbyteArray,
) -> jlong {
    ended(env, 0, || {
        // SAFETY: see lib.rs.
        let (location, options): (_, Create) =
            unsafe { (text(env, "location", location)?, json(env, "options", options)?) };
        Ok(hold(options.made_at(&location)?))
    })
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_unitNotes(env: Env, _: Class, table: jlong) -> jbyteArray {
    ended(env, std::ptr::null_mut(), || {
        let schema = held::<Table>("table", table)?.schema()?;
        let unit = |field: &'_ Arc<Field>| field.metadata().get("unit").cloned();
        let units: Vec<_> = schema.fields().iter().filter_map(|field| Some((field.name(), unit(field)?))).collect();
        let units = units.iter().map(|(column, unit)| (column.as_str(), unit.as_str()));
        // SAFETY: see lib.rs.
        unsafe { hand_json_out(env, &kubist_expr::unit_notes(units)) }
    })
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_tableOpen(env: Env, _: Class, location: jbyteArray) -> jlong {
    // SAFETY: see lib.rs.
    ended(env, 0, || Ok(hold(Table::open(&unsafe { text(env, "location", location) }?)?)))
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_tableDrop(env: Env, _: Class, location: jbyteArray) {
    ended(env, (), || {
        // SAFETY: see lib.rs.
        Table::drop_at(&unsafe { text(env, "location", location) }?, false)?;
        Ok(())
    });
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declaring {
    names: Option<BTreeSet<String>>,
    #[serde(default)]
    count: u64,
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_declareWriters(env: Env, _: Class, table: jlong, writers: jbyteArray) {
    ended(env, (), || {
        // SAFETY: see lib.rs.
        let Declaring { names, count } = unsafe { json(env, "writers", writers) }?;
        let declared = names.map_or(Declared::Count(count), Declared::Names);
        Ok(held::<Table>("table", table)?.declare_writers(&declared)?)
    });
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Moment {
    token: Option<String>,
    step: Option<i64>,
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_snapshot(env: Env, _: Class, table: jlong, moment: jbyteArray) -> jlong {
    ended(env, 0, || {
        // SAFETY: see lib.rs.
        let moment: Moment = unsafe { json(env, "moment", moment) }?;
        let table = held::<Table>("table", table)?;
        let snapshot = match moment.token {
            Some(token) => table.at(&token.parse::<SnapshotToken>()?)?,
            None => table.snapshot()?,
        };
        Ok(hold(match moment.step {
            Some(step) => snapshot.at_step(step)?,
            None => snapshot,
        }))
    })
}

#[derive(Serialize)]
struct About {
    token: String,
    columns: Vec<Column>,
    rows: u64,
    steps: Vec<i64>,
    uniform: bool,
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_about(env: Env, _: Class, snapshot: jlong) -> jbyteArray {
    ended(env, std::ptr::null_mut(), || {
        let snapshot = held::<Snapshot>("snapshot", snapshot)?;
        let about = About {
            token: snapshot.token().to_string(),
            columns: described(snapshot.schema().fields()),
            rows: snapshot.rows()?,
            steps: snapshot.complete_steps(),
            uniform: snapshot.pinned().view.schema.sampling.is_uniform(),
        };
        // SAFETY: see lib.rs.
        unsafe { hand_json_out(env, &about) }
    })
}

#[unsafe(no_mangle)]
pub extern "system" fn Java_org_kubist_Native_description(env: Env, _: Class, snapshot: jlong) -> jbyteArray {
    ended(env, std::ptr::null_mut(), || {
        let about = held::<Snapshot>("snapshot", snapshot)?.about()?;
        // SAFETY: see lib.rs.
        unsafe { hand_json_out(env, &about) }
    })
}
