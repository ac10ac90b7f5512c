//! A macro for builder methods of a struct of settings: `TuneConfig::default().evaluations(3).seed(7)`. The struct can
//! then gain a field without breaking its callers.

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
