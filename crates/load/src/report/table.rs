//! Columns of text: the first to the left, the others to the right.

/// Lines of equal columns.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Each line with a line end; `gap` blanks between columns.
    pub fn text(&self, gap: usize) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let blanks = width.saturating_sub(cell.chars().count());
                let before = if column == 0 { 0 } else { blanks + gap };
                line.push_str(&" ".repeat(before));
                line.push_str(cell);
                if column == 0 {
                    line.push_str(&" ".repeat(blanks));
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}
