// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! Several receivers as one.

use crate::context::Context;
use crate::error::{call, ns, Result};
use crate::frame::{Frame, FrameInfo};
use crate::media::Media;
use crate::receiver::{Event, Receiver, ReceiverShared};
use crate::{if_there, sys};
use std::any::Any;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::os::unix::io::BorrowedFd;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{fmt, ptr};

/// Which instant is wanted.
///
/// ```
/// use gpudirect::Select;
/// assert_eq!(Select::default(), Select::Next);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Select {
    /// The next in order.
    #[default]
    Next,
    /// The newest that is complete, or has waited long enough.
    Newest,
    /// That at this time; it may be read again.
    At(u64),
}

/// Whether a member has a frame for an instant, and why not.
///
/// ```
/// # fn show(instant: &gpudirect::Instant) {
/// use gpudirect::MemberState;
/// if instant.states[1] == MemberState::Late {
///     println!("the second member is late");
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberState {
    /// It has.
    Present,
    /// Connected, and its frame did not come in time.
    Late,
    /// Its sender has none for this instant, or dropped it.
    Skipped,
    /// It has no common clock with the others.
    Apart,
    /// Not connected.
    Absent,
    /// Its sender ended the stream.
    Ended,
    /// Of a newer library.
    Other(u32),
}

impl MemberState {
    fn from_raw(raw: sys::gpud_group_state) -> MemberState {
        match raw {
            sys::GPUD_GROUP_PRESENT => MemberState::Present,
            sys::GPUD_GROUP_LATE => MemberState::Late,
            sys::GPUD_GROUP_SKIPPED => MemberState::Skipped,
            sys::GPUD_GROUP_APART => MemberState::Apart,
            sys::GPUD_GROUP_ABSENT => MemberState::Absent,
            sys::GPUD_GROUP_ENDED => MemberState::Ended,
            other => MemberState::Other(other),
        }
    }
}

/// What a group hands on.
///
/// ```
/// # fn show(instant: &mut gpudirect::Instant) -> gpudirect::Result<()> {
/// for frame in instant.frames.iter_mut().flatten() {
///     println!("{} {}", instant.time_ns, frame.map(std::time::Duration::from_secs(1))?[0]);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Instant {
    /// The earliest of its frames' times.
    pub time_ns: u64,
    /// Instants are missing before this one.
    pub discontinuity: bool,
    /// Of `any`: whose frame it is; of `all`: the first member that has one.
    pub member: usize,
    /// How many members of `all` have no frame for it.
    pub missing: u32,
    /// Samples of each channel at the beginning of sound that were handed on before.
    pub skip: u32,
    /// The frames by member.
    pub frames: Vec<Option<Frame>>,
    /// Of each member.
    pub states: Vec<MemberState>,
}

crate::info! {
    /// The state and counters of a group, and of one of its members.
    ///
    /// ```
    /// # fn show(group: &gpudirect::Group) {
    /// let info = group.info(0);
    /// println!("{} instants, member 0: {} frames, {}", info.instants, info.frames, info.reason());
    /// # }
    /// ```
    GroupInfo: gpud_group_info { reason, warning }
}

type OnEvent = Box<dyn FnMut(usize, Event<'_>) + Send>;
type Time = Box<dyn Fn(usize, &FrameInfo<'_>) -> Option<u64> + Send + Sync>;

/// What C calls inside of acquire, and what that leaves for its return.
struct Events {
    on_event: Option<OnEvent>,
    media: Vec<Option<Arc<Media>>>, // by member
    panic: Option<Box<dyn Any + Send>>,
}

struct Callbacks {
    events: UnsafeCell<Events>, // for the thread that acquires
    time: Option<Time>,         // for the group's threads
}

unsafe extern "C" fn run_on_event(user: *mut c_void, member: u32, event: sys::gpud_event, data: *const c_void) {
    let events = &mut *(*(user as *const Callbacks)).events.get();
    let (media, on_event) = (&mut events.media[member as usize], &mut events.on_event);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        Event::hand_on(event, data, media, |event| {
            if let Some(on_event) = on_event {
                on_event(member as usize, event)
            }
        })
    }));
    events.panic = events.panic.take().or(caught.err());
}

unsafe extern "C" fn run_time(user: *mut c_void, member: u32, info: *const sys::gpud_frame_info) -> u64 {
    let time = &(*(user as *const Callbacks)).time;
    let ns = crate::or_abort(|| time.as_ref().and_then(|time| time(member as usize, &FrameInfo::read(info))));
    ns.unwrap_or(sys::GPUD_TIME_NONE)
}

/// How a group is made. What is not set has its default; `gpudirect/group.h` has the details.
///
/// ```
/// use gpudirect::{Context, Group, Receiver};
/// use std::time::Duration;
/// let context = Context::new()?;
/// let receivers = vec![
///     Receiver::builder("cam1").open(&context)?,
///     Receiver::builder("cam1-backup").open(&context)?,
/// ];
/// let group = Group::any()
///     .freeze_timeout(Duration::from_millis(500))
///     .time(|_member, frame| frame.stamp().pts_ns)
///     .on_event(|member, event| println!("{member}: {event:?}"))
///     .open(&context, receivers)?;
/// # Ok::<(), gpudirect::Error>(())
/// ```
pub struct GroupBuilder {
    params: sys::gpud_group_params,
    on_event: Option<OnEvent>,
    time: Option<Time>,
}

impl GroupBuilder {
    /// Frames whose times differ by this much at most are of one instant.
    pub fn tolerance(mut self, time: Duration) -> Self {
        self.params.tolerance_ns = ns(time);
        self
    }

    /// How long an instant waits for a member.
    pub fn latency(mut self, time: Duration) -> Self {
        self.params.latency_ns = ns(time);
        self
    }

    /// Of `any`: a member whose pictures have not changed for so long gives way to another.
    pub fn freeze_timeout(mut self, time: Duration) -> Self {
        self.params.freeze_timeout_ns = ns(time);
        self
    }

    /// Frames of each member that stay readable by [`Select::At`].
    pub fn history(mut self, frames: u32) -> Self {
        self.params.history = frames;
        self
    }

    /// The instant of a frame; `None`: it belongs to none. Default: its presentation time. It is called from threads of
    /// the group, must not use it, and a panic in it ends the process.
    pub fn time(mut self, function: impl Fn(usize, &FrameInfo<'_>) -> Option<u64> + Send + Sync + 'static) -> Self {
        self.time = Some(Box::new(function));
        self
    }

    /// Called inside of [`Group::acquire`], which hands on a panic in it.
    pub fn on_event(mut self, function: impl FnMut(usize, Event<'_>) + Send + 'static) -> Self {
        self.on_event = Some(Box::new(function));
        self
    }

    /// Makes the group of these receivers, which connect in threads of it from now on. Their own `on_event` is not
    /// called meanwhile.
    pub fn open(mut self, context: &Context, mut receivers: Vec<Receiver>) -> Result<Group> {
        let raws: Vec<_> = receivers.iter().map(|one| one.raw).collect();
        let media = receivers.iter_mut().map(|one| one.media().clone()).collect();
        let events = UnsafeCell::new(Events { on_event: self.on_event, media, panic: None });
        let callbacks = Arc::new(Callbacks { events, time: self.time });
        self.params.on_event = Some(run_on_event);
        if callbacks.time.is_some() {
            self.params.time = Some(run_time);
        }
        self.params.user = Arc::as_ptr(&callbacks) as *mut c_void;
        let (mut raw, count) = (ptr::null_mut(), raws.len() as u32);
        call(|error| unsafe {
            let raws = raws.as_ptr();
            sys::gpud_group_create(context.raw(), &self.params, raws, count, &mut raw, error)
        })?;
        Ok(Group { raw, receivers, callbacks, _context: context.clone() })
    }
}

/// Several receivers as one: [`Group::all`] hands on one frame of each for an instant, [`Group::any`] each instant
/// once, from whichever member has it.
///
/// ```no_run
/// use gpudirect::{Context, Group, Receiver, Select};
/// use std::time::Duration;
/// let context = Context::new()?;
/// let cameras = vec![
///     Receiver::builder("cam1").open(&context)?,
///     Receiver::builder("cam2").open(&context)?,
/// ];
/// let mut group = Group::all().latency(Duration::from_millis(40)).open(&context, cameras)?;
/// let instant = group.acquire(Select::Next, 0, Duration::from_secs(1))?;
/// println!("{} of 2 cameras", instant.frames.iter().flatten().count());
/// let cameras = group.into_receivers();
/// # Ok::<(), gpudirect::Error>(())
/// ```
pub struct Group {
    raw: *mut sys::gpud_group, // NULL: it has ended
    receivers: Vec<Receiver>,
    callbacks: Arc<Callbacks>,
    _context: Context,
}

// group.h: acquire is for one thread at a time, which &mut self is; get_info for any.
unsafe impl Send for Group {}
unsafe impl Sync for Group {}

impl Group {
    fn builder(mode: sys::gpud_group_mode) -> GroupBuilder {
        let mut params: sys::gpud_group_params = crate::sized();
        params.mode = mode;
        GroupBuilder { params, on_event: None, time: None }
    }

    /// Cameras: one frame of each member for one instant.
    pub fn all() -> GroupBuilder {
        Group::builder(sys::GPUD_GROUP_ALL)
    }

    /// A main and a backup sender of one programme: each instant once.
    pub fn any() -> GroupBuilder {
        Group::builder(sys::GPUD_GROUP_ANY)
    }

    /// Waits for an instant and hands on its frames. `preferred` is the member of `any` that is taken if it is in time.
    pub fn acquire(&mut self, select: Select, preferred: usize, timeout: Duration) -> Result<Instant> {
        let mut request: sys::gpud_group_request = crate::sized();
        (request.select, request.time_ns) = match select {
            Select::Next => (sys::GPUD_GROUP_NEXT, 0),
            Select::Newest => (sys::GPUD_GROUP_NEWEST, 0),
            Select::At(time_ns) => (sys::GPUD_GROUP_AT, time_ns),
        };
        request.preferred = u32::try_from(preferred).unwrap_or(u32::MAX);
        let mut raw: sys::gpud_group_instant = crate::sized();
        let result = call(|error| unsafe { sys::gpud_group_acquire(self.raw, &request, ns(timeout), &mut raw, error) });
        // No callback that uses them runs but inside of that call.
        let events = unsafe { &mut *self.callbacks.events.get() };
        let hold = |(member, receiver): (usize, &Receiver)| {
            let frame = raw.frames[member];
            let media = || events.media[member].clone();
            (!frame.is_null()).then(|| Frame::new(frame, media(), &receiver.context))
        };
        let instant = result.map(|_| Instant {
            time_ns: raw.time_ns,
            discontinuity: raw.discontinuity,
            member: raw.member as usize,
            missing: raw.missing,
            skip: raw.skip,
            frames: self.receivers.iter().enumerate().map(hold).collect(),
            states: raw.states.iter().take(self.receivers.len()).copied().map(MemberState::from_raw).collect(),
        });
        if let Some(panic) = events.panic.take() {
            drop(instant);
            resume_unwind(panic);
        }
        instant
    }

    /// The next instant in order if it is there: for event loops, until it gives `None`.
    pub fn try_acquire(&mut self) -> Result<Option<Instant>> {
        if_there(self.acquire(Select::Next, 0, Duration::ZERO))
    }

    /// A descriptor for event loops, readable when [`Group::try_acquire`] may give an instant.
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        Ok(unsafe { BorrowedFd::borrow_raw(self.info(0).fd) })
    }

    /// State and counters of the group and of one member.
    pub fn info(&self, member: usize) -> GroupInfo {
        let mut info = GroupInfo(crate::sized());
        let member = u32::try_from(member).unwrap_or(u32::MAX);
        unsafe { sys::gpud_group_get_info(self.raw, member, &mut info.0) };
        info
    }

    /// The parts of its receivers for other threads: `interrupt()` of one ends a wait of the group.
    pub fn members(&self) -> Vec<Weak<ReceiverShared>> {
        self.receivers.iter().map(Receiver::shared).collect()
    }

    fn end(&mut self) {
        // No member may be interrupted meanwhile.
        let _ending: Vec<_> = self
            .receivers
            .iter()
            .map(|one| one.ending.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
            .collect();
        unsafe { sys::gpud_group_destroy(&mut self.raw) }
    }

    /// Ends the group. Its receivers can be used by themselves again.
    pub fn into_receivers(mut self) -> Vec<Receiver> {
        self.end();
        let media = std::mem::take(unsafe { &mut (*self.callbacks.events.get()).media });
        self.receivers.iter_mut().zip(media).for_each(|(receiver, media)| *receiver.media() = media);
        std::mem::take(&mut self.receivers)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end()
    }
}

crate::descriptor! { Group }

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Group").field(&self.info(0)).finish()
    }
}
