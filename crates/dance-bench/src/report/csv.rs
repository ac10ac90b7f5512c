//! Tables as comma-separated values.

use csv::WriterBuilder;
use dance::data::io::csv_safe;
use dance_page::table::Table;

/// Returns the header and the rows of a table, each with the title as its first field.
///
/// Fields that a spreadsheet would run as a formula begin with an apostrophe.
pub fn to_csv(table: &Table) -> String {
    let mut writer = WriterBuilder::new().from_writer(Vec::new());
    let body = table.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect());
    for line in std::iter::once(table.columns.iter().map(String::as_str).collect::<Vec<_>>()).chain(body) {
        let fields = std::iter::once(table.title.as_str()).chain(line);
        // Writing to memory cannot fail.
        let _ = writer.write_record(fields.map(|field| csv_safe(field).into_owned()));
    }
    writer.into_inner().map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_and_no_formulas() {
        let mut table = Table::from_text(["m", "size"], [["=1+1", "2.5"], ["a\nb", "-1"]]);
        table.title = "a, b".into();
        let csv = "\"a, b\",m,size\n\"a, b\",'=1+1,2.5\n\"a, b\",\"a\nb\",-1\n";
        assert_eq!(to_csv(&table), csv);
    }
}
