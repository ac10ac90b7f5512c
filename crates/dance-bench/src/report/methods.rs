//! Every method of a report in one sentence, for readers who do not know its name.

use dance_page::html::escape;

use crate::experiment::{Method, Results};

/// Returns what a method does, in one sentence.
fn explanation(method: Method) -> &'static str {
    use Method as M;
    match method {
        M::Dance => "The paper's method: the union of the k-NN set and the CLR set, which share alpha.",
        M::KnnSet => "The paper's set by ranks: a label is in if enough of the nearest neighbors carry it.",
        M::ClrSet => "The paper's set by the contrastive score: neighbors with the label against neighbors without it.",
        M::DanceSplit => "The method DANCE, with calibration points that are not each other's neighbors.",
        M::Fuse => "Our method with one score from ranks and contrast; a new point joins the calibration points.",
        M::Posterior => {
            "Our default: a stack of several classifiers gives probabilities, which full conformal sets use."
        }
        M::PosteriorSplit => "The posterior, with half of the calibration points for its probabilities.",
        M::DeepKnn => "Share of the nearest neighbors that do not carry the label (Papernot and McDaniel, 2018).",
        M::Confine => {
            "Distance to the nearest points with the label, divided by that to the nearest without it (after CONFINE, \
             Huang and others, 2024)."
        }
        M::Lac => "Least ambiguous sets: labels whose probability by the kernel machine exceeds a threshold.",
        M::Aps => "Adaptive sets: the most probable labels until their probabilities add up to a threshold.",
        M::Raps => "APS with a penalty for every label after the first few.",
        M::Saps => "APS with the rank of a label in place of its probability.",
        M::ApsDeterministic => "APS without a random draw at the last label.",
        M::RapsDeterministic => "RAPS without a random draw at the last label.",
        M::SapsDeterministic => "SAPS without a random draw.",
        M::LogisticRegression => "LAC with the probabilities of a logistic regression on the embeddings.",
        M::ClassWise => "LAC with a threshold of its own for every class.",
        M::Clustered => "LAC with a threshold for every cluster of similar classes (Ding and others, 2023).",
        M::Rc3p => "Thresholds of every class, for its most probable labels only (Shi and others, 2024).",
        M::Pas => "Probability divided by the frequency of the class, for long tails (Ding and others, 2025).",
        M::InterpQ => "LAC with thresholds between that of all classes and that of each (Ding and others, 2025).",
        M::PasInterpQ => "PAS with the thresholds of Interp-Q.",
        M::Fca => "Full conformal sets of a linear probe that every query joins (Silva-Rodríguez and others, 2025).",
        M::NcpRaps => "RAPS with a threshold from the nearest calibration points (Ghosh and others, 2023).",
        M::ConfOtAps => {
            "APS on zero-shot probabilities, moved by optimal transport (Silva-Rodríguez and others, 2025)."
        }
        M::ConfOtRaps => "RAPS on zero-shot probabilities, moved by optimal transport.",
    }
}

/// Returns the section that explains every method of a run and says its guarantee.
pub(super) fn section(results: &Results) -> String {
    let entry = |method: &Method| {
        let (title, words) = (escape(method.title()), escape(explanation(*method)));
        format!("<dt>{title}</dt><dd>{words} <small>Guarantee: {}.</small></dd>", escape(method.guarantee()))
    };
    let entries: String = results.plan.methods.iter().map(entry).collect();
    format!("<section><h2 id=\"methods\">Methods</h2><dl class=\"terms card\">{entries}</dl></section>")
}

/// Returns the section that explains the names of columns and axes.
pub(super) fn measures() -> String {
    let measures = [
        ("α, alpha", "The error level: the share of sets that may miss the true label."),
        ("Coverage, Cov", "The share of sets with the true label. The target is 1 - α."),
        ("Size", "The mean number of labels in a set: smaller is better at equal coverage."),
        ("CCV", "The mean distance of a class's coverage from 1 - α, in per cent."),
        ("Floor", "The CCV that chance alone gives."),
        ("Acc", "The share of points whose most probable label is true."),
        ("Empty", "The share of sets without a label."),
        ("Mix", "The share of α for the contrastive score, in the method DANCE."),
    ];
    let entries: String = measures.iter().map(|(name, words)| format!("<dt>{name}</dt><dd>{words}</dd>")).collect();
    format!("<section><h2 id=\"measures\">Measures</h2><dl class=\"terms card\">{entries}</dl></section>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_an_explanation_of_its_own() {
        let all: std::collections::BTreeSet<&str> = Method::all().into_iter().map(explanation).collect();
        assert_eq!(all.len(), Method::all().len());
        assert!(all.iter().all(|words| words.len() > 20 && words.ends_with('.')));
    }
}
