//! Settings that are made step by step: `ConformalConfig::default().mix(Mix::Fixed(0.3)).seed(7)`. A struct of settings can so
//! gain a field without breaking anybody.

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
