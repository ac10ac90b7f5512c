//! A macro for builder methods: `RfmConfig::default().rounds(3).seed(7)`. A struct of settings with such methods can
//! gain a field without breaking its callers.

macro_rules! setters {
    ($settings:ident { $($field:ident: $type:ty),* $(,)? }) => {
        impl $settings {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](field@Self::", stringify!($field), ").")]
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}

pub(crate) use setters;
