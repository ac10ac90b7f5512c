//! Options from a file (`--config`). A key is the long name of an option. A key at the top applies to every command
//! with that option, a key under `[fit]` only to `fit`.
//!
//! The options of the file become arguments of the command line, which clap then checks. An option of the file is
//! ignored where the command line has it, or an option that excludes it.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches};
use dance::whole_file;
use toml::{Table, Value};

use crate::args::{Arguments, command_line};

/// The longest file in bytes, more than all options need.
const LONGEST: u64 = 1 << 20;

/// Returns the arguments of this process and of its configuration file. Ends the process on `--help` and on wrong
/// arguments.
pub(crate) fn arguments() -> anyhow::Result<Arguments> {
    let mut given: Vec<OsString> = std::env::args_os().collect();
    if let Some(extra) = from_file(&given)? {
        // Arguments after `--` are not options.
        let end = given.iter().position(|argument| argument == "--").unwrap_or(given.len());
        given.splice(end..end, extra);
    }
    let matches = command_line().get_matches_from(given);
    Ok(Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()))
}

/// Returns the options of the file that the arguments `given` name; `None` where they name none.
pub(crate) fn from_file(given: &[OsString]) -> anyhow::Result<Option<Vec<OsString>>> {
    let mut root = command_line();
    root.build();
    // The file may have arguments that are missing here. Wrong arguments are reported by the real parse.
    let Ok(matches) = root.clone().ignore_errors(true).try_get_matches_from(given) else { return Ok(None) };
    let Some((name, matches)) = matches.subcommand() else { return Ok(None) };
    let Some(path) = matches.get_one::<PathBuf>("config") else { return Ok(None) };
    let text = whole_file::read(path, LONGEST)?;
    let Ok(text) = String::from_utf8(text) else { bail!("{}: is not UTF-8 text", path.display()) };
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        anyhow::anyhow!("{}: line {line}: not TOML: {}", path.display(), error.message())
    })?;
    let Some(command) = root.find_subcommand(name) else { return Ok(None) };

    let mut extra = Vec::new();
    let mut add = |key: &str, value: &Value, known: bool| -> anyhow::Result<()> {
        if !known {
            let place = line_of(&text, key);
            bail!("{}{place}: no option is called `{key}`; {}", path.display(), suggestion(key, &root));
        }
        extra.extend(argument(command, matches, key, value).with_context(|| path.display().to_string())?);
        Ok(())
    };
    // A key at the top and in the command's own table is given once, from the table.
    let own = table.get(name).and_then(Value::as_table);
    for (key, value) in &table {
        if let (Value::Table(inner), Some(of)) = (value, root.find_subcommand(key)) {
            for (key, value) in inner {
                if option(of, key).is_none() {
                    let place = line_of(&text, key);
                    bail!("{}{place}: `dance {}` has no option `{key}`", path.display(), of.get_name());
                }
                if of.get_name() == name {
                    add(key, value, true)?;
                }
            }
        } else if own.is_none_or(|own| !own.contains_key(key)) {
            add(key, value, root.get_subcommands().any(|command| option(command, key).is_some()))?;
        }
    }
    Ok(Some(extra))
}

/// Returns the option `key` of a command. `config`, `help` and `version` are not options of a file.
fn option<'a>(command: &'a Command, key: &str) -> Option<&'a clap::Arg> {
    let mut options = command
        .get_arguments()
        .filter(|arg| arg.get_long().is_some_and(|long| !matches!(long, "config" | "help" | "version")));
    let key = key.replace('_', "-");
    options.find(|arg| {
        arg.get_long() == Some(&key) || arg.get_visible_aliases().unwrap_or_default().contains(&key.as_str())
    })
}

/// Returns the line of a key for messages; empty where it is not found.
fn line_of(text: &str, key: &str) -> String {
    let begins = |line: &str| {
        let rest = line.trim_start().trim_start_matches(['[', '"', '\'']).strip_prefix(key);
        rest.is_some_and(|rest| rest.starts_with([' ', '\t', '=', ']', '"', '\'', '.']))
    };
    text.lines().position(begins).map_or_else(String::new, |at| format!(": line {}", at + 1))
}

/// Returns `key = value` as an argument; `None` if this command has no such option, or the command line has it already.
fn argument(command: &Command, matches: &ArgMatches, key: &str, value: &Value) -> anyhow::Result<Option<OsString>> {
    let Some(arg) = option(command, key) else { return Ok(None) };
    let on_line = |id: &str| matches!(matches.value_source(id), Some(ValueSource::CommandLine));
    let excluded = command.get_arguments().any(|other| {
        on_line(other.get_id().as_str())
            && (command.get_arg_conflicts_with(arg).iter().any(|with| with.get_id() == other.get_id())
                || command.get_arg_conflicts_with(other).iter().any(|with| with.get_id() == arg.get_id()))
    });
    if on_line(arg.get_id().as_str()) || excluded {
        return Ok(None);
    }
    let name = arg.get_long().unwrap_or_default();
    if arg.get_action().takes_values() {
        return Ok(Some(format!("--{name}={}", text(key, value)?).into()));
    }
    match value {
        Value::Boolean(true) => Ok(Some(format!("--{name}").into())),
        Value::Boolean(false) => Ok(None),
        _ => bail!("`{key}` is either true or false"),
    }
}

fn text(key: &str, value: &Value) -> anyhow::Result<String> {
    Ok(match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(flag) => flag.to_string(),
        // Settings of the kernel and of scores: `kernel = {bandwidth = [0.1, 20], rounds = 3}`.
        Value::Table(settings) => {
            let setting = |(name, value): (&String, &Value)| match value {
                Value::Array(range) if range.len() == 2 => {
                    Ok(format!("{name}={}..{}", text(key, &range[0])?, text(key, &range[1])?))
                }
                value => Ok(format!("{name}={}", text(key, value)?)),
            };
            settings.iter().map(setting).collect::<anyhow::Result<Vec<_>>>()?.join(",")
        }
        Value::Array(values) => values.iter().map(|value| text(key, value)).collect::<Result<Vec<_>, _>>()?.join(","),
        Value::Datetime(_) => bail!("`{key}` cannot be {}", value.type_str()),
    })
}

fn suggestion(key: &str, root: &Command) -> String {
    let commands = root.get_subcommands().map(Command::get_name).collect::<Vec<_>>().join(", ");
    format!("keys are long options such as `evaluations` (not `{key}`), tables are commands ({commands})")
}
