//! Reading embeddings from files.
