//! Baselines: published methods that DANCE is compared with, one file each.

pub mod class_wise;
pub mod clustered;
pub mod conf_ot;
pub mod confine;
pub mod deep_knn;
pub mod fca;
mod k_means;
pub mod ncp;
pub mod pas;
pub mod rc3p;
