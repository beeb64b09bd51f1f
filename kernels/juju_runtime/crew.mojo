"""A crew of threads that help with large launches, and the way a launch is shared.

The calling thread announces a launch, takes tasks itself, and is done when all tasks are: a helper that wakes up late, or
not at all, costs nothing but its help. A fork-join waits for every thread to wake up, which takes up to half a millisecond
on a busy machine.

The crew is one block of 64-bit words, shared by all threads and never freed. A helper knows nothing of a launch before it
has taken a task of it, in one atomic step on the ticket (round, and tasks left, in one word); from then on the launch
cannot end before that task has.
"""

from std.atomic import Atomic
from std.ffi import external_call
from std.sys import CompilationTarget
from std.sys.intrinsics import llvm_intrinsic

from .program import ALIGN, Words, extent, fail, first, following, grain, prepare, run

comptime Word = Atomic[Int64]

# Places in the block. What several threads write at the same time has a cache line to itself.
comptime TICKET = 0
"""The round in the upper half, the number of tasks not taken in the lower."""
comptime DONE = 8
"""How many tasks of the round are done."""
comptime BUSY = 16
"""1 while a launch is shared; other calling threads then work alone."""
comptime SLEEPERS = 24
"""Helpers that wait for a post of `WAKE`."""
comptime WAITING = 32
"""1 while the calling thread waits for a post of `FINISHED`."""
comptime PROGRAM = 40
comptime LAUNCH = 41
comptime INDEX = 42
comptime SIZE = 43
comptime TASKS = 44
comptime HELPERS = 45
comptime WAKE = 48
comptime FINISHED = 56
"""Two POSIX semaphores."""
comptime BLOCK = 64

comptime LEFT = 0xFFFFFFFF
comptime TASKS_PER_THREAD = 4
"""More tasks than threads, so that a thread that is preempted does not hold up the others for long."""
comptime LOOKS = 1000
"""How often a thread looks for something to do before it sleeps: 10 to 50 microseconds."""


@always_inline
def relax():
    comptime if CompilationTarget.is_x86():
        llvm_intrinsic["llvm.x86.sse2.pause", NoneType]()


@always_inline
def word(crew: Words, place: Int) -> Words:
    return crew.unsafe_offset(place)


def found(crew: Words, helpers: Int):
    """Makes a crew of a block of zeros."""
    crew[unsafe_offset=HELPERS] = Int64(helpers)
    _ = external_call["sem_init", Int32](word(crew, WAKE), Int32(0), UInt32(0))
    _ = external_call["sem_init", Int32](word(crew, FINISHED), Int32(0), UInt32(0))


@always_inline
def post(crew: Words, place: Int):
    _ = external_call["sem_post", Int32](word(crew, place))


@always_inline
def wait(crew: Words, place: Int):
    while external_call["sem_wait", Int32](word(crew, place)) != 0:  # a signal arrived
        pass


@always_inline
def take(crew: Words) -> Int:
    """Takes a task; returns its number, or -1 if there is none."""
    var ticket = Word.load(word(crew, TICKET))
    while ticket & LEFT != 0:
        if Word.compare_exchange(word(crew, TICKET), ticket, ticket - 1):
            return Int(ticket & LEFT) - 1
    return -1


@always_inline
def work(crew: Words) -> Bool:
    """Does one task, if there is one."""
    var task = take(crew)
    if task < 0:
        return False
    var launch = crew.unsafe_bitcast[Words]()[unsafe_offset=LAUNCH]
    var size = Int(crew[unsafe_offset=SIZE])
    var lo = task * size
    var status = run(launch, lo, min(lo + size, extent(launch)))
    if status != 0:
        fail(crew.unsafe_bitcast[Words]()[unsafe_offset=PROGRAM], Int(crew[unsafe_offset=INDEX]), status)
    var tasks = crew[unsafe_offset=TASKS]
    if Word.fetch_add(word(crew, DONE), 1) + 1 == tasks:
        if Word._xchg(word(crew, WAITING), 0) == 1:
            post(crew, FINISHED)
    return True


def serve(crew: Words):
    """The life of a helper."""
    while True:
        var looks = 0
        while looks < LOOKS:
            if work(crew):
                looks = 0
            else:
                looks += 1
                relax()
        _ = Word.fetch_add(word(crew, SLEEPERS), 1)
        # A round that began before we said that we sleep did not wake us.
        if Word.load(word(crew, TICKET)) & LEFT == 0 or not awake(crew):
            wait(crew, WAKE)


@always_inline
def awake(crew: Words) -> Bool:
    """Takes one helper off the sleepers; False if none is left."""
    var sleepers = Word.load(word(crew, SLEEPERS))
    while sleepers > 0:
        if Word.compare_exchange(word(crew, SLEEPERS), sleepers, sleepers - 1):
            return True
    return False


def share(crew: Words, program: Words, launch: Words, index: Int, size: Int, tasks: Int):
    """Runs a launch together with the crew; `BUSY` is ours."""
    crew.unsafe_bitcast[Words]()[unsafe_offset=PROGRAM] = program
    crew.unsafe_bitcast[Words]()[unsafe_offset=LAUNCH] = launch
    crew[unsafe_offset=INDEX] = Int64(index)
    crew[unsafe_offset=SIZE] = Int64(size)
    crew[unsafe_offset=TASKS] = Int64(tasks)
    Word.store(word(crew, DONE), 0)
    var round = (Word.load(word(crew, TICKET)) >> 32) + 1
    Word.store(word(crew, TICKET), (round << 32) | Int64(tasks))
    var wanted = min(tasks - 1, Int(crew[unsafe_offset=HELPERS]))
    while wanted > 0 and awake(crew):
        post(crew, WAKE)
        wanted -= 1
    while work(crew):
        pass
    var looks = 0
    while Word.load(word(crew, DONE)) != Int64(tasks):
        looks += 1
        relax()
        if looks == LOOKS:
            Word.store(word(crew, WAITING), 1)
            # If the last task ended just before that, nobody posts.
            if Word.load(word(crew, DONE)) != Int64(tasks) or Word._xchg(word(crew, WAITING), 0) == 0:
                wait(crew, FINISHED)


def crewed(program: Words, crew: Words) -> Int:
    """Runs all launches in order, large ones together with the crew. Returns a status, and stops after the first."""
    program[unsafe_offset=1] = 0
    var limit = (Int(crew[unsafe_offset=HELPERS]) + 1) * TASKS_PER_THREAD
    var launch = first(program)
    for i in range(Int(program[unsafe_offset=0])):
        prepare(program, launch)
        var points = extent(launch)
        var tasks = max(1, min(limit, points // max(grain(launch), 1)))
        var size = ((points + tasks - 1) // tasks + ALIGN - 1) // ALIGN * ALIGN
        tasks = (points + size - 1) // max(size, 1)
        var free: Int64 = 0
        if tasks > 1 and Word.compare_exchange(word(crew, BUSY), free, 1):
            share(crew, program, launch, i, size, tasks)
            Word.store(word(crew, BUSY), 0)
        else:
            var status = run(launch, 0, points)
            if status != 0:
                fail(program, i, status)
        if program[unsafe_offset=1] != 0:
            break
        launch = following(launch)
    return Int(program[unsafe_offset=1])
