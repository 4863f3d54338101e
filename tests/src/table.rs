//! Reads the result table that perftest prints.

/// One result row and the header above it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The header line as printed, which names the columns and the unit.
    pub header: String,
    /// Message size in bytes.
    pub size: u64,
    /// Iterations, of all QPs together.
    pub iterations: u64,
    /// The average: bandwidth in the header's unit, or latency in microseconds.
    pub average: f64,
    /// Million messages per second, in a bandwidth row.
    pub rate: Option<f64>,
    /// All numbers of the row.
    pub numbers: Vec<f64>,
}

impl Row {
    /// Whether it reports that anything was measured. Small messages on a slow machine have a bandwidth
    /// of 0.00 and still a rate.
    #[must_use]
    pub fn has_figure(&self) -> bool {
        self.average > 0.0 || self.rate.is_some_and(|rate| rate > 0.0)
    }

    /// Whether two sides report the same numbers, each rounded to the places that are printed.
    #[must_use]
    pub fn reports_the_same(&self, other: &Self) -> bool {
        self.numbers.len() == other.numbers.len()
            && (self.numbers.iter().zip(&other.numbers))
                .all(|(one, two)| (one - two).abs() < 0.0151)
    }
}

/// A header as it is in every version: from 24.07 on the unit of bandwidth is `MiB/sec`, before it is `MB/sec`.
#[must_use]
pub fn header_of_any_version(header: &str) -> String {
    header.replace("MiB/sec", "MB/sec").trim_end().to_owned()
}

/// Finds every result row in what a perftest program printed.
///
/// A row counts only below a header that starts with ` #bytes`, and only with as many numbers as
/// that header has columns.
#[must_use]
pub fn rows(text: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut header: Option<(&str, Layout)> = None;
    for line in text.lines() {
        if line.starts_with(" #bytes") {
            header = Layout::of(line).map(|layout| (line, layout));
        } else if let Some((names, layout)) = &header {
            rows.extend(layout.read(names, line));
        }
    }
    rows
}

/// Which columns a header announces.
struct Layout {
    columns: usize,
    average: usize,
    rate: Option<usize>,
}

impl Layout {
    fn of(header: &str) -> Option<Self> {
        let mut layout = if header.contains("BW average[") {
            Self {
                columns: 5,
                average: 3,
                rate: Some(4),
            }
        } else if header.contains("t_stdev[usec]") {
            Self {
                columns: 9,
                average: 5,
                rate: None,
            }
        } else if header.contains("tps average") {
            Self {
                columns: 4,
                average: 2,
                rate: None,
            }
        } else {
            return None;
        };
        layout.columns += usize::from(header.contains("CPU_Util[%]"));
        Some(layout)
    }

    fn read(&self, header: &str, line: &str) -> Option<Row> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let numbers: Vec<f64> = fields
            .iter()
            .map_while(|field| field.parse().ok())
            .collect();
        if !line.starts_with(' ') || numbers.len() != fields.len() || fields.len() != self.columns {
            return None;
        }
        Some(Row {
            header: header.to_owned(),
            size: fields[0].parse().ok()?,
            iterations: fields[1].parse().ok()?,
            average: numbers[self.average],
            rate: self.rate.map(|column| numbers[column]),
            numbers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bandwidth_row_is_read_with_its_header() {
        let text = "---\n #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   \
                    MsgRate[Mpps]\n 65536      200              61.40              58.13  \t\t   \
                    0.000930\n---\n";
        let rows = rows(text);
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (rows[0].size, rows[0].iterations, rows[0].average),
            (65536, 200, 58.13)
        );
        assert!(
            rows[0]
                .header
                .starts_with(" #bytes     #iterations    BW peak")
        );
    }

    #[test]
    fn a_latency_row_gives_its_average_not_its_median() {
        let text = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    \
                    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n \
                    2       200          100.1          400.2        120.3  \t       125.4  \t\
                    8.5\t\t300.6 \t\t390.7\n";
        assert_eq!(rows(text)[0].average, 125.4);
    }

    #[test]
    fn numbers_without_a_header_and_cut_rows_are_no_result() {
        assert_eq!(rows(" 65536 200 61.4 58.1 0.0009\n"), []);
        let cut =
            " #bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]\n 65536 200\n";
        assert_eq!(rows(cut), []);
    }

    #[test]
    fn a_rate_is_a_figure_where_the_bandwidth_rounds_to_nothing() {
        let text = " #bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]\n \
                    1 100 0.00 0.00 \t\t 0.003120\n 1 100 0.00 0.00 \t\t 0.000000\n";
        let figures: Vec<bool> = rows(text).iter().map(Row::has_figure).collect();
        assert_eq!(figures, [true, false]);
    }
}
