//! A line-by-line difference for failure messages.

/// Lines beyond this are not compared but shown as replaced.
const COMPARED_LINES: usize = 2000;
const CONTEXT_LINES: usize = 3;

/// The lines of `expected` and `actual`: `-` only in expected, `+` only in actual, with a few common ones around.
pub fn lines(expected: &str, actual: &str) -> String {
    let old: Vec<&str> = expected.lines().take(COMPARED_LINES).collect();
    let new: Vec<&str> = actual.lines().take(COMPARED_LINES).collect();
    let marked = mark(&old, &new);
    let mut shown = String::new();
    for (index, (sign, line)) in marked.iter().enumerate() {
        let around = &marked
            [index.saturating_sub(CONTEXT_LINES)..(index + CONTEXT_LINES + 1).min(marked.len())];
        let heading = line.starts_with("=== ") && *sign == ' ';
        if heading || around.iter().any(|(sign, _)| *sign != ' ') {
            shown.push_str(&format!("{sign} {line}\n"));
        }
    }
    shown
}

/// Marks each line by the longest common subsequence of both.
fn mark<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    let mut common = vec![vec![0_u16; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut marked) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            marked.push((' ', old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            marked.push(('-', old[i]));
            i += 1;
        } else {
            marked.push(('+', new[j]));
            j += 1;
        }
    }
    marked
}

#[cfg(test)]
mod tests {
    #[test]
    fn shows_what_changed() {
        assert_eq!(
            super::lines("a\nb\nc\n", "a\nx\nc\n"),
            "  a\n- b\n+ x\n  c\n"
        );
        assert_eq!(super::lines("a\n", "a\n"), "");
    }
}
