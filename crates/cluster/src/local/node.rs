//! `loxo node add` and `remove` of a cluster on this machine: the server is made, and goes, with the datanode.

use std::path::{Path, PathBuf};

use pgerror::{PgError, Result, SqlState};

use super::lock::Lock;
use super::up::SPACE_NEW_DATANODE;
use super::{DATANODE_PORT_OFFSET, Kind, Layout, Part, daemon, datanode};
use crate::config::Datanode;
use crate::join::Join;
use crate::membership::{self, Member};
use crate::postgres::{Installation, OsUser};
use crate::proc::interrupted;
use crate::progress::Progress;
use crate::{disk, proc};

/// Ending of the name of a file beside the directory of a server that is to become a datanode.
const MARK: &str = ".joining";

/// Ports from P + 100 on that are tried.
const PORTS_TRIED: u16 = 900;

/// Makes one more datanode for the cluster in `dir`, which must run; gives its configuration. On failure the server is gone
/// again, unless nobody knows whether it has become a datanode.
pub async fn add(dir: &Path, name: Option<&str>, progress: &Progress) -> Result<Datanode> {
    let layout = load(dir)?;
    let _lock = Lock::take(layout.dir())?;
    add_locked(layout.dir(), name, progress).await
}

/// [`add`] for a caller that holds the lock.
pub(super) async fn add_locked(dir: &Path, name: Option<&str>, progress: &Progress) -> Result<Datanode> {
    correct(dir, progress).await?;
    let layout = load(dir)?;
    let user = OsUser::for_servers()?;
    let members = membership::members(layout.config()).await?;
    if let Some(member) = incomplete(&layout, &members, name).await? {
        return complete(&layout, member, progress).await;
    }
    if let Some(member) = members.iter().find(|member| Some(member.name.as_str()) == name) {
        return Err(PgError::new(SqlState::DUPLICATE_OBJECT, format!("{} is a datanode already", member.name))
            .hint("Leave the name away to have the next one chosen."));
    }
    let new = next(&layout, &members, name)?;
    let layout = layout.with_datanode(new.clone())?;
    let postgres = Installation::find(Some(&layout.local().pg_bin))?;
    disk::check_space(layout.dir(), SPACE_NEW_DATANODE)?;
    Addition { layout, new, postgres, user, progress: *progress }.run().await
}

/// Takes up what calls have left that were interrupted when a server was a datanode of some databases only.
pub(super) async fn complete_locked(dir: &Path, progress: &Progress) -> Result<()> {
    loop {
        let layout = load(dir)?;
        let members = membership::members(layout.config()).await?;
        match incomplete(&layout, &members, None).await? {
            Some(member) => complete(&layout, member, progress).await.map(drop)?,
            None => return Ok(()),
        }
    }
}

/// The first datanode, or that of this name, if a database lacks it.
async fn incomplete<'m>(layout: &Layout, members: &'m [Member], name: Option<&str>) -> Result<Option<&'m Member>> {
    for member in members.iter().filter(|member| name.is_none_or(|name| member.name == name)) {
        if !membership::lacking(layout.config(), member.id).await?.is_empty() {
            return Ok(Some(member));
        }
    }
    Ok(None)
}

/// Makes a datanode of the first database one of all.
async fn complete(layout: &Layout, member: &Member, progress: &Progress) -> Result<Datanode> {
    let Member { id, name, host, port, .. } = member;
    progress.line(&format!("{name} is not a datanode of every database yet"));
    let new = Datanode {
        name: name.clone(),
        id: Some(*id),
        host: host.clone(),
        port: *port,
        primary: false,
        preferred: false,
    };
    let join = Join::new(layout.config(), &new, progress).await?;
    let outcome = tokio::select! {
        outcome = join.add() => outcome,
        name = interrupted() => Err(stopped(name)),
    };
    if let Err(error) = outcome {
        join.check_complete(*id, &error).await?;
    }
    Ok(new)
}

pub(super) fn load(dir: &Path) -> Result<Layout> {
    let dir = disk::absolute(dir)?;
    Layout::load(&dir)?.ok_or_else(|| {
        PgError::new(SqlState::UNDEFINED_OBJECT, format!("there is no cluster in \"{}\"", dir.display()))
            .hint("Start one with \"loxo up\", or name its directory with --dir; --config is for real hosts.")
    })
}

/// Finishes what calls have begun that were killed when the metadata had changed, but not the configuration yet. Says whether
/// there was anything.
pub(super) async fn correct(dir: &Path, progress: &Progress) -> Result<bool> {
    let mut layout = load(dir)?;
    let members = membership::members(layout.config()).await?;
    for member in &members {
        let mark = mark(&layout, &member.name);
        if mark.exists() {
            std::fs::remove_file(&mark).map_err(disk::context("remove", &mark))?;
        }
    }
    let is_member = |name: &str| members.iter().any(|member| member.name == name);
    let gone: Vec<String> = layout.config().datanodes.iter().map(|node| node.name.clone()).collect();
    for name in gone.iter().filter(|name| !is_member(name)) {
        datanode::stop(&layout, name).await?;
        set_aside(&layout.data_dir(name))?;
    }
    let ours = ours(&layout, members);
    if !follow(&mut layout, &ours)? {
        return Ok(false);
    }
    write(&layout, OsUser::for_servers()?.as_ref())?;
    progress.line("datanodes have come or gone by a command that was killed: cluster.toml has them now");
    Ok(true)
}

/// Those that live in the cluster's directory: a server of another host may have been added too.
fn ours(layout: &Layout, mut members: Vec<Member>) -> Vec<Member> {
    members.retain(|member| layout.data_dir(&member.name).exists());
    members
}

/// Stops servers that were to become datanodes by calls that were killed.
pub(super) async fn stop_joining(layout: &Layout) -> Result<()> {
    let entries = std::fs::read_dir(layout.dir()).map_err(disk::context("read", layout.dir()))?;
    for entry in entries.flatten() {
        if let Some(name) = entry.file_name().to_str().and_then(|name| name.strip_suffix(MARK)) {
            datanode::stop(layout, name).await?;
        }
    }
    Ok(())
}

/// Has the configuration name the datanodes that the metadata name. Says whether they differed.
pub(super) fn follow(layout: &mut Layout, members: &[Member]) -> Result<bool> {
    let configured = &layout.config().datanodes;
    let of = |member: &Member| Datanode {
        name: member.name.clone(),
        id: Some(member.id),
        host: member.host.clone(),
        port: member.port,
        primary: member.is_primary,
        preferred: configured.iter().any(|node| node.name == member.name && node.preferred),
    };
    let before: Vec<(u16, String)> =
        layout.config().datanodes_by_id().map(|(id, node)| (id, node.name.clone())).collect();
    let now: Vec<(u16, String)> = members.iter().map(|member| (member.id, member.name.clone())).collect();
    if before == now {
        return Ok(false);
    }
    *layout = layout.clone().with_datanodes(members.iter().map(of).collect())?;
    Ok(true)
}

/// Tells the directory of a server that has not become a datanode yet from everything else.
fn mark(layout: &Layout, name: &str) -> PathBuf {
    layout.dir().join(format!("{name}{MARK}"))
}

/// Name and port of the next datanode.
fn next(layout: &Layout, members: &[Member], name: Option<&str>) -> Result<Datanode> {
    let number = |name: &str| name.strip_prefix("dn")?.parse::<u32>().ok();
    let last = members.iter().filter_map(|member| number(&member.name)).max().unwrap_or(0);
    let name = name.map_or_else(|| format!("dn{}", last + 1), str::to_owned);
    let first = layout.local().port.saturating_add(DATANODE_PORT_OFFSET);
    let is_free =
        |port: &u16| members.iter().all(|member| member.port != *port) && proc::check_port_free(*port, &name).is_ok();
    let port = (first..first.saturating_add(PORTS_TRIED)).find(is_free).ok_or_else(|| {
        let text = format!("none of the ports {first} to {} is free", first.saturating_add(PORTS_TRIED));
        PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text).hint("Stop programs that use some of them.")
    })?;
    let host = "127.0.0.1".to_owned();
    Ok(Datanode { name, id: None, host, port, primary: false, preferred: false })
}

fn stopped(name: &str) -> PgError {
    PgError::new(SqlState::QUERY_CANCELED, format!("stopped by {name}"))
}

pub(super) fn write(layout: &Layout, user: Option<&OsUser>) -> Result<()> {
    let file = layout.config_file();
    disk::write(&file, &layout.config().to_toml()?)?;
    datanode::own(&file, user)
}

/// One call of `add`.
struct Addition {
    /// With the new datanode.
    layout: Layout,
    new: Datanode,
    postgres: Installation,
    user: Option<OsUser>,
    progress: Progress,
}

impl Addition {
    async fn run(self) -> Result<Datanode> {
        self.discard_leftover().await?;
        let mark = mark(&self.layout, &self.new.name);
        disk::write(&mark, "A datanode is being added; this file and the directory go if that fails.\n")?;
        datanode::own(&mark, self.user.as_ref())?;
        let server = async {
            self.start_server().await?;
            Join::new(self.layout.config(), &self.new, &self.progress).await
        };
        let join = tokio::select! {
            join = server => join,
            name = interrupted() => Err(stopped(name)),
        };
        let join = match join {
            Ok(join) => join,
            Err(error) => return Err(self.undone(error).await),
        };
        let outcome = tokio::select! {
            outcome = join.add() => outcome,
            name = interrupted() => Err(stopped(name)),
        };
        let Err(error) = outcome else {
            self.note(&mark).await?;
            return Ok(self.new);
        };
        match join.left_after(error.clone()).await {
            Ok(id) => {
                self.note(&mark).await?;
                join.check_complete(id, &error).await.map(|()| self.new)
            }
            Err(error) if error.code() == SqlState::STATEMENT_COMPLETION_UNKNOWN => Err(error),
            Err(error) => Err(self.undone(error).await),
        }
    }

    /// The configuration has the new datanode, and its directory is like those of the others.
    async fn note(&self, mark: &Path) -> Result<()> {
        let mut layout = self.layout.clone();
        let members = ours(&layout, membership::members(layout.config()).await?);
        follow(&mut layout, &members)?;
        write(&layout, self.user.as_ref())?;
        std::fs::remove_file(mark).map_err(disk::context("remove", mark))
    }

    async fn start_server(&self) -> Result<()> {
        let (layout, name, user) = (&self.layout, &self.new.name, self.user.as_ref());
        let making = datanode::Making::local(layout);
        let create = datanode::create(layout, name, &self.postgres, user, &making);
        self.progress.step(&format!("creating {name}"), create).await?;
        let part = self.part();
        datanode::configure(layout, &part, user)?;
        let start = async {
            datanode::start(layout, name, &self.postgres, user).await?;
            daemon::wait_until_it_answers(layout, &part).await
        };
        self.progress.step(&format!("starting {name}"), start).await
    }

    fn part(&self) -> Part {
        Part { kind: Kind::Datanode, name: self.new.name.clone(), port: self.new.port }
    }

    /// Removes a server that was to become a datanode and did not. Anything else with its name is not touched.
    async fn discard_leftover(&self) -> Result<()> {
        let data = self.layout.data_dir(&self.new.name);
        if mark(&self.layout, &self.new.name).exists() {
            self.progress.line(&format!("removing what an interrupted call has left in {}", data.display()));
            return self.remove_server().await;
        }
        if !data.exists() {
            return Ok(());
        }
        Err(PgError::new(SqlState::DUPLICATE_OBJECT, format!("\"{}\" is there already", data.display()))
            .hint("Choose another name for the datanode, or move the directory away."))
    }

    /// Stops and removes the server that this call has made.
    async fn undone(&self, error: PgError) -> PgError {
        if let Err(trouble) = self.remove_server().await {
            self.progress.line(&format!("could not clean up: {trouble}"));
        }
        error
    }

    async fn remove_server(&self) -> Result<()> {
        let name = &self.new.name;
        datanode::stop(&self.layout, name).await?;
        datanode::discard_draft(&self.layout, name).await?;
        for place in [self.layout.data_dir(name), self.layout.log_file(name), mark(&self.layout, name)] {
            let removed = if place.is_dir() { std::fs::remove_dir_all(&place) } else { std::fs::remove_file(&place) };
            match removed {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(disk::context("remove", &place)(e)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Takes a datanode out of the cluster in `dir`, which must run, and stops its server; gives where its data directory is
/// now, if it has one here. What was interrupted is finished by another call.
pub async fn remove(dir: &Path, name: &str, progress: &Progress) -> Result<Option<PathBuf>> {
    let layout = load(dir)?;
    drop(Lock::take(layout.dir())?);
    let is_configured = layout.config().datanodes.iter().any(|node| node.name == name);
    // An earlier call may have been killed when it was none any more, but in the file, or had its directory.
    if is_member(&layout, name).await? || !is_configured && !has_server(&layout, name) {
        // Without the lock, for however long that takes: whatever dies meanwhile is needed, and "loxo up" starts it again.
        membership::empty(layout.config(), name, progress).await?;
    }
    let _lock = progress.step("waiting for another loxo command", Lock::wait(layout.dir())).await?;
    let layout = load(dir)?;
    if is_member(&layout, name).await? {
        membership::leave(layout.config(), name, progress).await?;
    }
    Ok(set_servers_aside(layout, &[name.to_owned()], progress).await?.pop())
}

/// Takes datanodes out of the cluster in `dir` that do not answer, with all that they alone held; gives where their data
/// directories are now, as far as there are any.
pub async fn give_up(dir: &Path, names: &[String], progress: &Progress) -> Result<Vec<PathBuf>> {
    let layout = load(dir)?;
    let _lock = Lock::take(layout.dir())?;
    let layout = load(dir)?;
    // An earlier call may have been killed when some were none any more, but in the file, or had their directories.
    let is_configured = |name: &String| layout.config().datanodes.iter().any(|node| node.name == *name);
    let mut left = Vec::new();
    for name in names {
        let is_unknown = !is_configured(name) && !has_server(&layout, name);
        if is_unknown || !membership::is_given_up(layout.config(), name).await? {
            left.push(name.clone());
        }
    }
    if !left.is_empty() {
        membership::give_up(layout.config(), &left, progress).await?;
    }
    set_servers_aside(layout, names, progress).await
}

/// Stops servers that are no datanodes any more and puts them aside. The configuration does not name them afterwards.
async fn set_servers_aside(mut layout: Layout, names: &[String], progress: &Progress) -> Result<Vec<PathBuf>> {
    for name in names {
        progress.step(&format!("stopping {name}"), datanode::stop(&layout, name)).await?;
    }
    let members = ours(&layout, membership::members(layout.config()).await?);
    follow(&mut layout, &members)?;
    // First: "loxo up" misses the directory of a datanode that is in the file.
    write(&layout, OsUser::for_servers()?.as_ref())?;
    let mut kept = Vec::new();
    for name in names {
        kept.extend(set_aside(&layout.data_dir(name))?);
    }
    Ok(kept)
}

/// Is there the data directory of a server of this name that is not about to become a datanode?
fn has_server(layout: &Layout, name: &str) -> bool {
    !name.contains(['.', std::path::MAIN_SEPARATOR])
        && layout.log_file(name).exists()
        && layout.data_dir(name).join("PG_VERSION").exists()
        && !mark(layout, name).exists()
}

async fn is_member(layout: &Layout, name: &str) -> Result<bool> {
    Ok(membership::members(layout.config()).await?.iter().any(|member| member.name == name))
}

/// Renames a directory: NAME.removed, or with a number behind it if there is one of that name.
fn set_aside(data: &Path) -> Result<Option<PathBuf>> {
    if !data.exists() {
        return Ok(None);
    }
    let named =
        |suffix: String| data.with_file_name(format!("{}{suffix}", data.file_name().unwrap_or_default().display()));
    let mut names = std::iter::once(named(".removed".to_owned())).chain((2..).map(|i| named(format!(".removed{i}"))));
    let kept = names.find(|path| !path.exists()).unwrap_or_else(|| data.to_owned());
    std::fs::rename(data, &kept).map_err(disk::context("rename", data))?;
    Ok(Some(kept))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::layout::Shape;
    use super::*;
    use crate::settings::Profile;

    fn layout() -> Layout {
        let shape = Shape { coordinators: 1, gtms: 1, datanodes: 3 };
        Layout::new(Path::new("/d"), 6000, shape, Profile::Default, BTreeMap::new(), PathBuf::from("/bin")).unwrap()
    }

    fn members(ids: &[u16]) -> Vec<Member> {
        let member = |id: &u16| Member {
            id: *id,
            name: format!("dn{}", id + 1),
            host: "127.0.0.1".to_owned(),
            port: 6100 + id,
            is_primary: *id == 0,
        };
        ids.iter().map(member).collect()
    }

    #[test]
    fn the_configuration_follows_the_metadata_with_ids_where_there_are_holes() {
        let mut layout = layout();
        assert!(!follow(&mut layout, &members(&[0, 1, 2])).unwrap());
        assert!(follow(&mut layout, &members(&[0, 2, 3])).unwrap());
        let nodes: Vec<(&str, Option<u16>, u16)> =
            layout.config().datanodes.iter().map(|node| (node.name.as_str(), node.id, node.port)).collect();
        assert_eq!(nodes, [("dn1", None, 6100), ("dn3", Some(2), 6102), ("dn4", Some(3), 6103)]);
        assert!(!follow(&mut layout, &members(&[0, 2, 3])).unwrap());
    }

    #[test]
    fn the_next_datanode_has_the_next_name() {
        let layout = layout();
        let next = |name| next(&layout, &members(&[0, 2, 3]), name).unwrap();
        assert_eq!(next(None).name, "dn5");
        assert_eq!(next(Some("big")).name, "big");
        let port = next(None).port;
        assert!(port > 6100 && ![6102, 6103].contains(&port), "{port}");
    }
}
