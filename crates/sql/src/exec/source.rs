//! Rows of tables, lists and functions.
//!
//! Invariants: a row has the columns that the plan's scan names, in its order.
//! Does not do: filters that are not the scan's own.

use std::sync::Arc;

use rightlink::{Decimal, RowId, RowVisitor, Rows, ScanOptions, Transaction, Value};

use crate::catalog::system_views::View;
use crate::catalog::{Objects, views};
use crate::error::{Result, SqlError};
use crate::exec::batch::{BYTES, Batch, ROWS};
use crate::exec::columns::passing;
use crate::exec::execution::Execution;
use crate::exec::kept_catalog;
use crate::exec::made::MadeRows;
use crate::exec::memory::Memory;
use crate::exec::query::{filtered, project};
use crate::exec::vector::Vector;
use crate::exec::{Batched, Operator, Ready, RowsOf, Stream, sets};
use crate::expr::probe::Probe;
use crate::expr::{Context, Expr};
use crate::plan::node::{Node, Op};
use crate::plan::path::Path;
use crate::plan::{Query, Table, TableScan, ViewUse};
use crate::types::{Datum, Row, SqlType};

/// What the engine is asked for; `None` if no row can match.
pub(crate) fn scan_options(scan: &TableScan, context: &Context) -> Result<Option<ScanOptions>> {
    let names = scan.columns.iter().map(|at| scan.table.info.columns[*at].name.as_str());
    Ok(place_options(scan, context)?.map(|options| options.columns(names)))
}

/// The same for rows of which only their places are asked.
pub(crate) fn place_options(scan: &TableScan, context: &Context) -> Result<Option<ScanOptions>> {
    let options = match &scan.path {
        Path::Sequential => Some(ScanOptions::all()),
        Path::Tid(place) => match place.eval(&[], context)? {
            Datum::Tid(id) => Some(ScanOptions::at(id)),
            _ => None,
        },
        Path::Index(path) => path.options(context)?,
    };
    Ok(options.map(|options| {
        let read_ahead = context.settings.read_ahead(options.index.is_some());
        ScanOptions { read_ahead, columns: Some(Vec::new()), ..options }
    }))
}

/// The rows of a query for one key of a unique index, which needs no operator; `None` for any
/// other. Two rows where the transaction sees two under one key.
pub(crate) fn rows_of_key(
    query: &Query,
    txn: &mut Transaction,
    context: &Context,
) -> Result<Option<Vec<Row>>> {
    let (scan, output) = match &query.root.op {
        Op::Scan(scan) => (scan, None),
        Op::Project { input, output } => match &input.op {
            Op::Scan(scan) => (scan, Some(output)),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let Some(path) = scan.one_key().filter(|_| context.probe.is_none()) else { return Ok(None) };
    let mut exprs = scan.filter.iter().chain(&path.equal).chain(output.into_iter().flatten());
    if exprs.any(Expr::has_query) {
        return Ok(None);
    }
    let mut rows = Vec::new();
    let Some(key) = path.key(context)? else { return Ok(Some(rows)) };
    let (table, index) = (&scan.table.info.name, &path.index.name);
    for row in txn.rows_of_key(table, index, &key, &scan.columns)?.into_iter().flatten() {
        let row = convert(row, types_of(scan), scan.with_tid)?;
        match &scan.filter {
            Some(filter) if !filter.holds(&row, context)? => {}
            _ => rows.push(match output {
                Some(output) => project(output, &row, context)?,
                None => row,
            }),
        }
    }
    Ok(Some(rows))
}

/// Rows of a table.
struct TableRows {
    node: Arc<Node>,
    rows: Rows,
    /// Types of the columns.
    types: Vec<SqlType>,
    /// Who wants to know what was left out and what reading did.
    probe: Option<Probe>,
    removed: u64,
}

impl TableRows {
    fn new(node: &Arc<Node>, scan: &TableScan, rows: Rows, context: &Context) -> TableRows {
        let types = types_of(scan).collect();
        let (node, probe) = (Arc::clone(node), context.probe.clone());
        TableRows { node, rows, types, probe, removed: 0 }
    }
}

impl Drop for TableRows {
    fn drop(&mut self) {
        if let Some(probe) = &self.probe {
            let (stats, removed) = (self.rows.stats(), self.removed);
            probe.note(self.node.number, |figures| figures.read(stats, removed));
        }
    }
}

/// Types of the columns of a scan's rows, without `ctid`.
pub(super) fn types_of(scan: &TableScan) -> impl Iterator<Item = SqlType> + Clone {
    scan.columns.iter().map(|at| scan.table.types[*at])
}

/// The next rows of a scan of the engine, at most so many; without rows at the end.
pub(super) fn read_batch(
    rows: &mut Rows,
    types: &[SqlType],
    with_tid: bool,
    most: usize,
    context: &Context,
) -> Result<Batch> {
    context.check()?;
    let most = most.min(ROWS);
    let columns = types.iter().map(|ty| Vector::of(*ty, most.min(64))).collect();
    let places = with_tid.then(Vec::new);
    let mut filling = Filling { types, columns, places, len: 0, bytes: 0, most, failed: None };
    rows.visit(&mut filling)?;
    let Filling { mut columns, places, len, failed, .. } = filling;
    if let Some(error) = failed {
        return Err(error);
    }
    columns.extend(places.map(Vector::Any));
    Ok(Batch { len, columns })
}

/// A batch that rows of the engine fill.
struct Filling<'t> {
    types: &'t [SqlType],
    columns: Vec<Vector>,
    /// Where the rows are, if that is wanted.
    places: Option<Vec<Datum>>,
    len: usize,
    /// Bytes behind the values.
    bytes: usize,
    /// Rows wanted.
    most: usize,
    failed: Option<SqlError>,
}

impl Filling<'_> {
    #[inline(never)]
    fn any(&mut self, place: usize, value: Value) {
        let value = Datum::stored(value, self.types[place]).unwrap_or_else(|error| {
            self.failed.get_or_insert(error);
            Datum::Null
        });
        self.bytes += value.heap_bytes();
        self.columns[place].push(value);
    }
}

impl RowVisitor for Filling<'_> {
    fn value(&mut self, place: usize, value: Value) {
        self.any(place, value);
    }

    #[inline]
    fn int4(&mut self, place: usize, value: i32) {
        match &mut self.columns[place] {
            Vector::Int4(numbers) => numbers.push(Some(value)),
            _ => self.any(place, Value::Int4(value)),
        }
    }

    #[inline]
    fn int8(&mut self, place: usize, value: i64) {
        match &mut self.columns[place] {
            Vector::Int8(numbers) => numbers.push(Some(value)),
            _ => self.any(place, Value::Int8(value)),
        }
    }

    #[inline]
    fn float8(&mut self, place: usize, value: f64) {
        match &mut self.columns[place] {
            Vector::Float8(numbers) => numbers.push(Some(value)),
            _ => self.any(place, Value::Float8(value)),
        }
    }

    #[inline]
    fn date(&mut self, place: usize, value: i32) {
        match &mut self.columns[place] {
            Vector::Date(numbers) => numbers.push(Some(value)),
            _ => self.any(place, Value::Date(value)),
        }
    }

    #[inline]
    fn text(&mut self, place: usize, value: &str) {
        match &mut self.columns[place] {
            Vector::Text(texts) => {
                texts.push(Some(value));
                self.bytes += value.len();
            }
            _ => self.any(place, Value::Text(value.to_owned())),
        }
    }

    #[inline]
    fn decimal(&mut self, place: usize, unscaled: i128, scale: u16) {
        let fits = match &mut self.columns[place] {
            Vector::Numeric(numbers) => numbers.push(unscaled, scale),
            _ => false,
        };
        if !fits {
            let number = Decimal::from_unscaled(unscaled, scale).expect("a stored scale");
            self.any(place, Value::Decimal(number));
        }
    }

    #[inline]
    fn end_row(&mut self, id: RowId) -> bool {
        if let Some(places) = &mut self.places {
            places.push(Datum::Tid(id));
        }
        self.len += 1;
        self.len < self.most && self.bytes < BYTES && self.failed.is_none()
    }
}

impl Operator for TableRows {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        let Op::Scan(scan) = &self.node.op else { unreachable!("opened for a scan") };
        loop {
            let batch = read_batch(&mut self.rows, &self.types, scan.with_tid, most, context)?;
            if batch.len == 0 {
                return Ok(None);
            }
            let Some(filter) = &scan.filter else { return Ok(Some(batch)) };
            let read = batch.len;
            let kept = filtered(filter, batch, context)?;
            self.removed += (read - kept.len) as u64;
            if kept.len > 0 {
                return Ok(Some(kept));
            }
        }
    }
}

/// A row of the engine as a row here.
pub(crate) fn convert(
    row: rightlink::Row,
    types: impl Iterator<Item = SqlType>,
    with_tid: bool,
) -> Result<Row> {
    let mut values = Vec::with_capacity(row.values.len() + usize::from(with_tid));
    for (value, ty) in row.values.into_iter().zip(types) {
        values.push(Datum::stored(value, ty)?);
    }
    if with_tid {
        values.push(Datum::Tid(row.id));
    }
    Ok(values)
}

/// Rows of VALUES.
struct ValuesRows {
    node: Arc<Node>,
    at: usize,
}

impl Stream for ValuesRows {
    fn next(&mut self, _: usize, context: &Context) -> Result<Option<Row>> {
        let Op::Values(rows) = &self.node.op else { unreachable!("opened for a list of values") };
        let Some(row) = rows.get(self.at) else { return Ok(None) };
        self.at += 1;
        project(row, &[], context).map(Some)
    }
}

/// Rows with their numbers behind.
struct Numbered {
    stream: Box<dyn Stream>,
    count: i64,
}

impl Stream for Numbered {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Row>> {
        let Some(mut row) = self.stream.next(most, context)? else { return Ok(None) };
        self.count += 1;
        row.push(Datum::Int8(self.count));
        Ok(Some(row))
    }
}

/// Rows of a function whose arguments are counted as long as it gives some.
struct Counted {
    stream: Box<dyn Stream>,
    _memory: Memory,
}

impl Stream for Counted {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Row>> {
        self.stream.next(most, context)
    }
}

/// Opens a query of a statement.
pub(crate) fn open_query(
    query: &Query,
    txn: &mut Transaction,
    context: &Context,
) -> Result<Box<dyn Stream>> {
    // Functions whose statements run may be called while rows are read, and not before.
    let alone = !Execution::of(context).is_part() && context.routines.is_none();
    if let Some(rows) = alone.then(|| rows_of_key(query, txn, context)).transpose()?.flatten() {
        return Ok(Box::new(Ready::new(rows)));
    }
    prepare(&query.tables, &query.views, txn, context)?;
    Ok(Box::new(RowsOf::new(query.root.open(None, context)?)))
}

/// Gets ready what a statement reads by, before any of its queries is opened.
pub(crate) fn prepare(
    tables: &[Arc<Table>],
    views: &[ViewUse],
    txn: &mut Transaction,
    context: &Context,
) -> Result<()> {
    // All parts of a statement read by the one snapshot that they have.
    if !tables.is_empty() && !Execution::of(context).is_part() {
        let names: Vec<&str> = tables.iter().map(|table| table.info.name.as_str()).collect();
        Execution::of(context).read_by(txn.reader(&names)?);
    }
    // Arguments of the others may name objects.
    if views.iter().any(|one| views::asks_objects(one.view.kind))
        && !Execution::of(context).knows_objects()
    {
        match kept_catalog::of(txn, context)? {
            Some(kept) => Execution::of(context).know_catalog(kept),
            None => Execution::of(context).know_objects(Objects::of(txn)?),
        }
    }
    for ViewUse { view, args } in views {
        if views::is_of_objects(view.kind) {
            Execution::of(context).add_view(None, view.columns.len(), context)?;
            continue;
        }
        let args = args.iter().map(|arg| arg.eval(&[], context)).collect::<Result<Vec<_>>>()?;
        let objects = match views::asks_objects(view.kind) {
            true => Some(Execution::of(context).known_objects()?),
            false => None,
        };
        let rows = views::rows(view, &args, objects.as_deref(), txn, &context.session_info())?;
        Execution::of(context).add_view(Some(rows), view.columns.len(), context)?;
    }
    Ok(())
}

/// Opens a source. `most` is the most rows that will be asked for, if that is known.
pub(crate) fn open(
    node: &Arc<Node>,
    most: Option<u64>,
    context: &Context,
) -> Result<Box<dyn Operator>> {
    let width = node.width;
    let ready = |rows| Box::new(Batched { stream: Ready::new(rows), width });
    match &node.op {
        Op::Single => Ok(ready(vec![Vec::new()])),
        Op::Values(_) => {
            let stream = ValuesRows { node: Arc::clone(node), at: 0 };
            Ok(Box::new(Batched { stream, width }))
        }
        Op::Function { call, args, ordinality, .. } => {
            let args = project(args, &[], context)?;
            let mut memory = Memory::new(&context.budget());
            memory.charge_row(&args)?;
            let stream = sets::rows(*call, args, context)?;
            let mut stream: Box<dyn Stream> = Box::new(Counted { stream, _memory: memory });
            if *ordinality {
                stream = Box::new(Numbered { stream, count: 0 });
            }
            Ok(Box::new(Batched { stream, width }))
        }
        Op::View { view, columns, slot, key, .. } => {
            let source = MadeSource { view, columns, slot: *slot };
            let made = source.rows(key.as_ref().map(|key| key.column), context)?;
            let found = match (key, made.key) {
                (Some(key), Some(at)) => Some(made.rows.having(at, &key.values, context)?),
                _ => None,
            };
            Ok(Box::new(MadeScan { node: Arc::clone(node), made, found, at: 0 }))
        }
        Op::Scan(scan) => table(node, scan, most, context),
        _ => unreachable!("the caller has looked"),
    }
}

/// The part of a relation that is made up which a statement reads.
pub(super) struct MadeSource<'n> {
    pub(super) view: &'static View,
    /// Places of the columns that are wanted.
    pub(super) columns: &'n [usize],
    pub(super) slot: usize,
}

/// Rows of a relation, which may be narrowed to the columns that the statement reads.
pub(super) struct Made {
    pub(super) rows: rightlink_env::sync::Arc<MadeRows>,
    /// Places in them of the columns that are wanted.
    pub(super) columns: Vec<usize>,
    /// The place of the column that finds rows by a value.
    pub(super) key: Option<usize>,
    /// The columns among them that are made anew.
    live: Option<Live>,
}

/// Columns that tell something else at any time.
struct Live {
    view: &'static View,
    /// Their places in the relation, and among the columns that are wanted.
    columns: Vec<usize>,
    places: Vec<usize>,
}

impl Live {
    /// Those among the columns of a relation that are wanted.
    fn among(view: &'static View, columns: &[usize]) -> Option<Live> {
        let all = columns.iter().enumerate().filter(|(_, at)| view.live_at(**at).is_some());
        let (places, columns): (Vec<usize>, Vec<usize>) =
            all.map(|(at, column)| (at, *column)).unzip();
        (!columns.is_empty()).then_some(Live { view, columns, places })
    }
}

impl Made {
    /// These rows.
    pub(super) fn pick(&self, rows: &[u32], context: &Context) -> Result<Batch> {
        self.pick_where(rows, None, context)
    }

    /// Those of these rows for which a condition is true that asks no live column.
    fn pick_where(&self, rows: &[u32], filter: Option<&Expr>, context: &Context) -> Result<Batch> {
        context.spend(rows.len())?;
        let batch = self.rows.pick(&self.columns, rows);
        let Some(filter) = filter else { return self.with_live(batch, rows, context) };
        context.check()?;
        let passing = passing(filter, &batch, context)?;
        let rows: Vec<u32> = passing.iter().map(|at| rows[*at as usize]).collect();
        self.with_live(batch.keep(&passing), &rows, context)
    }

    /// These rows, with what their live columns tell now.
    fn with_live(&self, mut batch: Batch, rows: &[u32], context: &Context) -> Result<Batch> {
        let Some(Live { view, columns, places }) = &self.live else { return Ok(batch) };
        let number = |row: &u32| match self.rows.value(view.number_at(), *row) {
            Datum::Oid(number) => number,
            _ => 0,
        };
        let numbers: Vec<u32> = rows.iter().map(number).collect();
        let (objects, db) = (Execution::of(context).known_objects()?, context.session_info().db);
        let live = views::live_values(view, columns, &numbers, &objects, db)?;
        for (place, values) in places.iter().zip(live) {
            let old = &batch.columns[*place];
            let now = |(at, value): (usize, Option<Datum>)| value.unwrap_or_else(|| old.get(at));
            batch.columns[*place] = Vector::Any(values.into_iter().enumerate().map(now).collect());
        }
        Ok(batch)
    }
}

impl MadeSource<'_> {
    /// The rows, which `key` may find by a value.
    pub(super) fn rows(&self, key: Option<usize>, context: &Context) -> Result<Made> {
        let MadeSource { view, columns, slot } = *self;
        let wanted: Vec<usize> = columns.iter().copied().chain(key).collect();
        let execution = Execution::of(context);
        let session = context.session_info();
        let to_keep = |objects: &Objects| views::rows_to_keep(view, objects, &session);
        let kept = execution.kept_catalog().filter(|_| views::can_be_kept(view, key));
        if let Some(rows) =
            kept.map(|kept| kept.rows(view, context, to_keep)).transpose()?.flatten()
        {
            let live = Live::among(view, columns);
            return Ok(Made { rows, columns: columns.to_vec(), key, live });
        }
        let is_whole = !views::is_of_objects(view.kind);
        // Of what is made now, columns that nobody reads are let go at once.
        let narrowed = |objects: &Objects| {
            let kept = |row: Row| wanted.iter().map(|at| row[*at].clone()).collect();
            let rows = views::rows_of_objects(view, objects, &session)?;
            Ok(rows.into_iter().map(kept).collect())
        };
        let rows = execution.view(slot, wanted.len(), context, narrowed)?;
        Ok(match is_whole {
            true => Made { rows, columns: columns.to_vec(), key, live: None },
            false => {
                let own = (0..columns.len()).collect();
                Made { rows, columns: own, key: key.map(|_| columns.len()), live: None }
            }
        })
    }
}

/// A scan of rows of a relation that is made up.
struct MadeScan {
    node: Arc<Node>,
    made: Made,
    /// The rows that are wanted; `None`: all.
    found: Option<Vec<u32>>,
    at: usize,
}

impl Operator for MadeScan {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Batch>> {
        let Op::View { filter, .. } = &self.node.op else { unreachable!("opened for a relation") };
        loop {
            let len = self.found.as_ref().map_or(self.made.rows.len(), Vec::len);
            let count = most.min(self.made.rows.together()).min(len - self.at);
            if count == 0 {
                return Ok(None);
            }
            let (from, to) = (self.at, self.at + count);
            self.at = to;
            let batch = match &self.found {
                Some(found) => self.made.pick_where(&found[from..to], filter.as_ref(), context)?,
                None => {
                    let rows: Vec<u32> = (from as u32..to as u32).collect();
                    self.made.pick_where(&rows, filter.as_ref(), context)?
                }
            };
            if batch.len > 0 {
                return Ok(Some(batch));
            }
        }
    }
}

fn table(
    node: &Arc<Node>,
    scan: &TableScan,
    most: Option<u64>,
    context: &Context,
) -> Result<Box<dyn Operator>> {
    let width = node.width;
    let Some(mut options) = scan_options(scan, context)? else {
        return Ok(Box::new(Batched { stream: Ready::new(Vec::new()), width }));
    };
    options.limit = most.filter(|_| scan.filter.is_none());
    options.any_order = scan.any_order && options.index.is_some() && options.limit.is_none();
    let rows = Execution::of(context).reader()?.scan(&scan.table.info.name, &options)?;
    Ok(Box::new(TableRows::new(node, scan, rows, context)))
}

impl<S: Stream + ?Sized> Stream for Box<S> {
    fn next(&mut self, most: usize, context: &Context) -> Result<Option<Row>> {
        (**self).next(most, context)
    }
}
