//! The block format shared by `requests`, `configs` and `origin`: `=== NAME [OPTION…]` lines and the text under each.

pub struct Block {
    pub name: String,
    pub options: Vec<(String, String)>,
    /// The lines below, each with its line end.
    pub text: String,
}

impl Block {
    /// The option's value; empty for one without `=`.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options
            .iter()
            .find(|(option, _)| option == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Splits a file into blocks. Lines above the first block are a comment.
pub fn parse(text: &str) -> Result<Vec<Block>, String> {
    let mut blocks: Vec<Block> = Vec::new();
    for line in text.split_inclusive('\n') {
        if let Some(heading) = line.strip_prefix("=== ") {
            let mut words = heading.split_whitespace();
            let name = words.next().ok_or("a block without a name")?.to_string();
            if blocks.iter().any(|block| block.name == name) {
                return Err(format!("two blocks are named {name}"));
            }
            let option = |word: &str| {
                word.split_once('=')
                    .map_or((word.to_string(), String::new()), |(k, v)| {
                        (k.to_string(), v.to_string())
                    })
            };
            blocks.push(Block {
                name,
                options: words.map(option).collect(),
                text: String::new(),
            });
        } else if let Some(block) = blocks.last_mut() {
            block.text.push_str(line);
        }
    }
    if blocks.is_empty() {
        Err("the file has no `=== NAME` line".to_string())
    } else {
        Ok(blocks)
    }
}
