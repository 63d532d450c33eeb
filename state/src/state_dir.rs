//! The directory that holds one process's state. The only place of this crate that touches the file
//! system by itself.
//!
//! ```text
//! <state dir>/<application id>/.lock        held while the process lives; names its pid
//!                              .instance    an id that stays the same over restarts
//!                              0_1/         one task
//!                              .trash-…/    on its way out; removed at the next start
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::{StateError, UnsafeReason};

const LOCK: &str = ".lock";
const INSTANCE: &str = ".instance";
const TRASH: &str = ".trash-";

/// What [`StateDir::open_with`] lets pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateDirOptions {
    /// Use a directory even if it is a symbolic link, belongs to another user, or anybody may write to it.
    pub allow_unsafe: bool,
}

impl StateDirOptions {
    /// Lets unsafe directories pass. For machines where the checks do not fit, such as some containers.
    #[must_use]
    pub fn allow_unsafe(mut self) -> Self {
        self.allow_unsafe = true;
        self
    }
}

/// An application's state directory, held by this process alone until it is dropped.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    instance_id: String,
    options: StateDirOptions,
    /// The user this process creates files as.
    #[cfg_attr(not(unix), expect(dead_code, reason = "files have no owner number here"))]
    user: u32,
    /// Keeps the lock.
    _lock: File,
}

impl StateDir {
    /// Opens the directory of an application below `path`, making what is missing, and locks it. Removes
    /// what an earlier process was discarding.
    ///
    /// # Errors
    /// If another process holds the directory, it cannot be made or written, it is unsafe, or the
    /// application id is no file name.
    pub fn open(path: impl AsRef<Path>, application_id: &str) -> Result<Self, StateError> {
        Self::open_with(path, application_id, StateDirOptions::default())
    }

    /// Like [`open`](Self::open), with options.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_with(
        path: impl AsRef<Path>,
        application_id: &str,
        options: StateDirOptions,
    ) -> Result<Self, StateError> {
        check_name("an application", application_id)?;
        let root = path.as_ref();
        let path = root.join(application_id);
        make_dir(root)?;
        refuse_odd_entry(&path, options)?;
        make_dir(&path)?;
        let user = probe_user(&path)?;
        if !options.allow_unsafe {
            check_rights(root, user, Role::Root)?;
            check_rights(&path, user, Role::Own)?;
        }
        let lock = take_lock(&path)?;
        let instance_id = instance_id(&path)?;
        let dir = Self { path, instance_id, options, user, _lock: lock };
        dir.empty_trash()?;
        Ok(dir)
    }

    /// The application's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Identifies this directory: made at random once, the same over restarts.
    #[must_use]
    pub fn instance_id(&self) -> &str {
        &self.instance_id
    }

    /// The directory of a task, such as `0_1`; makes it if it is missing.
    ///
    /// # Errors
    /// If it cannot be made, is unsafe, or the name is no file name.
    pub fn task_dir(&self, task: &str) -> Result<PathBuf, StateError> {
        check_name("a task", task)?;
        let path = self.path.join(task);
        refuse_odd_entry(&path, self.options)?;
        make_dir(&path)?;
        if !self.options.allow_unsafe {
            check_rights(&path, self.user, Role::Own)?;
        }
        Ok(path)
    }

    /// The tasks that have a directory, sorted by name. Foreign files are ignored.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn tasks(&self) -> Result<Vec<String>, StateError> {
        let mut tasks = Vec::new();
        for (name, is_dir) in self.entries()? {
            if is_dir && check_name("a task", &name).is_ok() {
                tasks.push(name);
            }
        }
        Ok(tasks)
    }

    /// Removes the state of a task. It is out of the way at once: a crash in the middle leaves trash, not
    /// half a task.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn discard_task(&self, task: &str) -> Result<(), StateError> {
        check_name("a task", task)?;
        let path = self.path.join(task);
        if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok(());
        }
        let trash = (0u64..)
            .map(|number| self.path.join(format!("{TRASH}{task}-{number}")))
            .find(|trash| fs::symlink_metadata(trash).is_err())
            .expect("a directory has fewer entries than there are numbers");
        fs::rename(&path, &trash).map_err(io_error("discard", &path))?;
        remove(&trash)
    }

    fn empty_trash(&self) -> Result<(), StateError> {
        for (name, _) in self.entries()? {
            if name.starts_with(TRASH) {
                remove(&self.path.join(name))?;
            }
        }
        Ok(())
    }

    /// Names of entries and whether they are directories, sorted. Names that are not text are not ours.
    fn entries(&self) -> Result<Vec<(String, bool)>, StateError> {
        let error = io_error("read", &self.path);
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(&error)? {
            let entry = entry.map_err(&error)?;
            let is_dir = entry.file_type().map_err(&error)?.is_dir();
            if let Ok(name) = entry.file_name().into_string() {
                entries.push((name, is_dir));
            }
        }
        entries.sort();
        Ok(entries)
    }
}

fn io_error(action: &'static str, path: &Path) -> impl Fn(io::Error) -> StateError {
    move |source| StateError::Io { action, path: path.to_owned(), source }
}

/// A name must be one plain, visible component of a path.
fn check_name(what: &'static str, name: &str) -> Result<(), StateError> {
    const NAME_BYTES_MAX: usize = 255;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    if fits && !name.starts_with('.') && name.bytes().all(plain) {
        return Ok(());
    }
    Err(StateError::BadName { what, name: name.to_owned() })
}

fn make_dir(path: &Path) -> Result<(), StateError> {
    if path.is_dir() {
        return Ok(());
    }
    if fs::symlink_metadata(path).is_ok() {
        return Err(unsafe_dir(path, UnsafeReason::NotADirectory));
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(io_error("make directory", path))
}

/// Refuses what stands where a directory of ours belongs, but is none.
fn refuse_odd_entry(path: &Path, options: StateDirOptions) -> Result<(), StateError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() && !options.allow_unsafe => {
            Err(unsafe_dir(path, UnsafeReason::Symlink))
        }
        _ => Ok(()),
    }
}

fn unsafe_dir(path: &Path, reason: UnsafeReason) -> StateError {
    StateError::UnsafeDirectory { path: path.to_owned(), reason }
}

/// What a directory is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The place for the directories of all applications. It may be shared, as `/var/lib` and `/tmp` are,
    /// as long as nobody else can put another directory in place of ours.
    Root,
    /// A directory of ours.
    Own,
}

#[cfg(unix)]
fn check_rights(path: &Path, user: u32, role: Role) -> Result<(), StateError> {
    use std::os::unix::fs::MetadataExt;

    const WRITABLE_BY_OTHERS: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    const SUPERUSER: u32 = 0;
    let found = fs::metadata(path).map_err(io_error("read", path))?;
    let shared = role == Role::Root && found.mode() & STICKY != 0;
    if found.mode() & WRITABLE_BY_OTHERS != 0 && !shared {
        return Err(unsafe_dir(path, UnsafeReason::WorldWritable));
    }
    let trusted = found.uid() == user || (role == Role::Root && found.uid() == SUPERUSER);
    if trusted { Ok(()) } else { Err(unsafe_dir(path, UnsafeReason::ForeignOwner)) }
}

#[cfg(not(unix))]
fn check_rights(_: &Path, _: u32, _: Role) -> Result<(), StateError> {
    Ok(())
}

/// Finds out that we can write, and who we are to the file system.
fn probe_user(path: &Path) -> Result<u32, StateError> {
    let probe = path.join(format!(".probe-{}", std::process::id()));
    let error = io_error("write to directory", path);
    match fs::remove_file(&probe) {
        Err(problem) if problem.kind() != io::ErrorKind::NotFound => return Err(error(problem)),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).open(&probe).map_err(&error)?;
    let user = owner(&file.metadata().map_err(&error)?);
    fs::remove_file(&probe).map_err(&error)?;
    Ok(user)
}

#[cfg(unix)]
fn owner(found: &fs::Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::uid(found)
}

#[cfg(not(unix))]
fn owner(_: &fs::Metadata) -> u32 {
    0
}

/// Opens a file of ours for reading and writing, without cutting it short.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn take_lock(dir: &Path) -> Result<File, StateError> {
    let path = dir.join(LOCK);
    let error = io_error("lock", &path);
    let mut lock = open_private(&path).map_err(&error)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            // The holder may not have written its pid yet; the error then goes without.
            let pid = lock.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            return Err(StateError::Locked { path: dir.to_owned(), pid });
        }
        Err(TryLockError::Error(problem)) => return Err(error(problem)),
    }
    lock.set_len(0).map_err(&error)?;
    lock.rewind().map_err(&error)?;
    writeln!(lock, "{}", std::process::id()).map_err(&error)?;
    Ok(lock)
}

/// Reads the directory's id, or makes one.
fn instance_id(dir: &Path) -> Result<String, StateError> {
    let path = dir.join(INSTANCE);
    match fs::read_to_string(&path) {
        Ok(text) => {
            if let Ok(id) = uuid::Uuid::try_parse(text.trim()) {
                return Ok(id.to_string());
            }
            // A torn file from before the first task: nothing can depend on it.
        }
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => {}
        Err(problem) => return Err(io_error("read", &path)(problem)),
    }
    #[allow(
        clippy::disallowed_methods,
        reason = "a directory needs an id no other directory has; no result depends on its value"
    )]
    let id = uuid::Uuid::new_v4().to_string();
    let fresh = dir.join(format!("{INSTANCE}.new"));
    let error = io_error("write", &path);
    let mut file = open_private(&fresh).map_err(&error)?;
    file.set_len(0).map_err(&error)?;
    writeln!(file, "{id}").map_err(&error)?;
    file.sync_all().map_err(&error)?;
    fs::rename(&fresh, &path).map_err(&error)?;
    Ok(id)
}

fn remove(path: &Path) -> Result<(), StateError> {
    let is_dir = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let done = if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    done.map_err(io_error("remove", path))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn directory_of_another_user_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let ours = owner(&fs::metadata(temp.path()).unwrap());
        for role in [Role::Own, Role::Root] {
            check_rights(temp.path(), ours, role).unwrap();
        }
        let foreign = check_rights(temp.path(), ours + 1, Role::Own).unwrap_err();
        assert!(foreign.to_string().contains("owned by another user"), "{foreign}");
        // The superuser may own the place for all directories, and nothing else.
        check_rights(Path::new("/"), ours + 1, Role::Root).unwrap();
        check_rights(Path::new("/"), ours + 1, Role::Own).unwrap_err();
    }
}
