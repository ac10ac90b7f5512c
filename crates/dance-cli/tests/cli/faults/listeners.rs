//! Closed outputs: stdout, stderr, pipes without a reader, and terminals.

use std::process::Command;

use super::super::{binary, names};
use super::{WRITERS, folder, shell};

/// Every command works without stderr and without a reader of stdout, and its status says so.
#[test]
fn work_is_done_whoever_listens() {
    for writer in WRITERS {
        for end in ["2>&-", "2>/dev/full", "| true", "2>&- | true"] {
            let folder = folder();
            let line = format!("{{ dance {}; echo $? > code; }} {end}", writer.arguments.join(" "));
            shell(folder.path(), &line);
            // A shell may end before the begin of its pipe does.
            let code = || std::fs::read_to_string(folder.path().join("code")).unwrap_or_default();
            while !code().ends_with('\n') {
                std::thread::yield_now();
            }
            assert_eq!(code(), "0\n", "{} {end}", writer.name);
            for name in writer.outputs {
                assert!(folder.path().join(name).exists(), "{} {end}: no {name}", writer.name);
            }
        }
    }
}

/// Results that would go nowhere are an error, before any work is done; what is thrown away on purpose is not.
#[test]
fn a_closed_stdout_is_an_error() {
    for writer in WRITERS {
        let folder = folder();
        let before = names(folder.path());
        let line = format!("dance {} >&-", writer.arguments.join(" "));
        shell(folder.path(), &line).fails(&["dance: stdout is closed"]);
        assert_eq!(names(folder.path()), before, "{}", writer.name);
        shell(folder.path(), &line.replace(">&-", ">/dev/null")).success();
    }
    let folder = folder();
    for arguments in ["predict m d.csv", "inspect m", "evaluate m d.csv", "explain m d.csv --row 0", "man"] {
        shell(folder.path(), &format!("dance {arguments} >&-")).fails(&["dance: stdout is closed"]);
    }
}

/// An error keeps its exit status without stderr.
#[test]
fn errors_keep_their_status() {
    let folder = folder();
    for end in ["2>&-", "2>/dev/full", ">&- 2>&-"] {
        shell(folder.path(), &format!("dance predict m nowhere.csv {end}")).code(2);
    }
}

/// A terminal that is closed ends what runs in it, without a half file.
#[test]
fn a_closed_terminal_ends_a_fit() {
    const CLOSE: &str = "
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
while b'searching' not in os.read(terminal, 1024):
    pass
os.close(terminal)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
";
    let folder = folder();
    let before = names(folder.path());
    let mut python = Command::new("python3");
    python.args(["-c", CLOSE]).arg(binary()).current_dir(folder.path());
    python.args(["fit", "d.csv", "-o", "new", "--evaluations", "1000000"]);
    match python.status() {
        Ok(status) => assert_eq!(status.code(), Some(129)),
        Err(error) => println!("no python3 ({error}): a closed terminal is not tried"),
    }
    assert_eq!(names(folder.path()), before);
}
