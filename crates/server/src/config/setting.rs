//! One setting as it was written or not, and the macro that declares a feature's settings: `Raw` holds only what stands
//! in the file, `Settings` is resolved and has no "unset" (DESIGN section 3, "cycle").

/// What is wrong with a directive; the position is added by the builder, unless `bare`.
#[derive(Debug, Clone)]
pub struct Complaint {
    pub text: String,
    /// nginx prints this one without ` in FILE:LINE`.
    pub bare: bool,
}

impl Complaint {
    pub fn bare(text: impl Into<String>) -> Complaint {
        Complaint {
            text: text.into(),
            bare: true,
        }
    }
}

impl From<String> for Complaint {
    fn from(text: String) -> Complaint {
        Complaint { text, bare: false }
    }
}

impl From<&str> for Complaint {
    fn from(text: &str) -> Complaint {
        Complaint {
            text: text.to_owned(),
            bare: false,
        }
    }
}

/// A setting that was written, or was not and is inherited.
#[derive(Debug, Clone)]
pub struct Setting<T>(pub Option<T>);

impl<T> Default for Setting<T> {
    fn default() -> Self {
        Setting(None)
    }
}

impl<T> Setting<T> {
    /// Stores the value; a second time in one block is nginx's "is duplicate".
    pub fn set(&mut self, value: T) -> Result<(), Complaint> {
        self.vacant()?.0 = Some(value);
        Ok(())
    }

    /// For setters that check a value: nginx says "is duplicate" before it looks at the value.
    pub fn vacant(&mut self) -> Result<&mut Self, Complaint> {
        match self.0 {
            None => Ok(self),
            Some(_) => Err("is duplicate".into()),
        }
    }

    /// The written value, or else the parent's.
    pub fn or(&self, parent: &T) -> T
    where
        T: Clone,
    {
        self.0.as_ref().unwrap_or(parent).clone()
    }
}

/// Declares `Raw` (what was written) and `Settings` (resolved), with defaults and inheritance from the parent block.
#[macro_export]
macro_rules! settings {
    ($( $(#[$doc:meta])* $field:ident : $type:ty = $default:expr ),* $(,)?) => {
        /// What was written in one block.
        #[derive(Default, Debug, Clone)]
        pub struct Raw { $( pub $field: $crate::config::setting::Setting<$type>, )* }
        /// What holds in one block, everything resolved.
        #[derive(Debug, Clone)]
        pub struct Settings { $( $(#[$doc])* pub $field: $type, )* }
        impl Default for Settings {
            fn default() -> Self { Settings { $( $field: $default, )* } }
        }
        impl Raw {
            /// The settings of a block inside one with the settings `parent`.
            #[must_use]
            pub fn resolve(&self, parent: &Settings) -> Settings {
                Settings { $( $field: self.$field.or(&parent.$field), )* }
            }
        }
    };
}

pub use settings;
