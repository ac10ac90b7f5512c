//! Translation of the library's settings, which its errors name, to options of the command line.

/// Phrases of errors with their options. A phrase is longer than a name, so that no name in a file is replaced.
const FLAGS: [(&str, &str); 21] = [
    ("`method` = ", "--method "),
    ("`calibration` = ", "--calibration "),
    ("`by_class` = ", "--by-class "),
    ("`new_labels` = true", "--new-labels"),
    ("`mix` = ", "--scores mix="),
    ("drop `method`", "drop --method"),
    ("drop `calibration`", "drop --calibration"),
    ("drop `by_class`", "drop --by-class"),
    ("drop `new_labels`", "drop --new-labels"),
    ("drop `mix`", "drop --scores mix"),
    ("the setting `format`", "--format"),
    ("the setting `labels`", "--labels"),
    ("the setting `unlabeled`, with an empty text,", "--unlabeled ''"),
    ("the setting `unlabeled` with the value ", "--unlabeled "),
    ("set `unlabeled` to an empty text", "give --unlabeled ''"),
    ("the setting `unlabeled`", "--unlabeled"),
    ("the setting `label_column`", "--label-column"),
    ("the setting `id_column`", "--id-column"),
    ("the setting `embedding_column`", "--embedding-column"),
    ("`id_column` or `other_columns`", "--id-column, --groups or --parts"),
    ("`id_column`", "--id-column"),
];

/// Returns a message of the library with options in place of settings.
pub(crate) fn with_flags(message: &str) -> String {
    FLAGS.iter().fold(message.to_owned(), |text, (setting, flag)| text.replace(setting, flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_options() {
        let config = dance::conformal::ConformalConfig::paper().new_labels(true);
        let text = with_flags(&config.check().unwrap_err().to_string());
        assert!(text.starts_with("--new-labels cannot be used with --method dance: drop --new-labels"), "{text}");
        let text = "no label at row 3; the setting `unlabeled`, with an empty text, leaves out such rows";
        let expected = "no label at row 3; --unlabeled '' leaves out such rows";
        assert_eq!(with_flags(text), expected);
        assert_eq!(with_flags("by the setting `label_column` or `id_column`"), "by --label-column or --id-column");
        assert_eq!(with_flags("it holds `labels`, `format`"), "it holds `labels`, `format`");
    }
}
