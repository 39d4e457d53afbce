/* SPDX-License-Identifier: MIT */
/*
 * The protocol of src/pool/bins.h and block.h, for Spin: the words of the blocks, the look-again stack, threads that
 * free into blocks without the lock, and threads that hold blocks, carve from them and let them go.
 *
 * Two blocks of two granules, each granule one slice. FREERS threads call free, WORKERS threads allocate. They do so
 * for ever and count nothing, so every interleaving of any length is searched. Each step of the code that others may
 * see, or that sees what others do, is one step here: an atomic read-modify-write, or one load or store. What is only
 * touched under the lock is one step with its neighbour. Memory order is not modelled: some of the mistakes swap a
 * store and a load, which is what weaker orders would allow; for the rest there are ThreadSanitizer and the argument
 * beside the code.
 *
 * What is asserted, in the threads and by a watcher that looks at every state:
 *
 *   - no slice is handed out twice, and none is free that the program has
 *   - no block is in two places: held twice, in a list twice, on the stack twice, or held and in a list
 *   - no free is lost: when nobody is at work, a block that nobody holds is filed by all the granules that it has
 *     free, or on the stack, where the next look finds it
 *   - the first two are true of a child that is forked in this state: it has the words as they are, the heaps that
 *     were not in a slow path, and lists made anew from the states of the blocks if the lock was held
 *
 * Defined with -D, a name IN_CAPITALS beside an #ifdef makes a mistake, which the search has to find.
 */
#ifndef FREERS
#define FREERS 2
#endif
#ifndef WORKERS
#define WORKERS 2
#endif

#ifdef SMALL /* the second block has one granule */
#define SLICES 3
#define ALL_OF_SECOND 1
#else
#define SLICES 4
#define ALL_OF_SECOND 3
#endif

#define BLOCKS 2
#define NO_BLOCK BLOCKS
#define ALL(b) (b == 0 -> 3 : ALL_OF_SECOND) /* slice s is granule s % 2 of block s / 2 */

#define FILED 0
#define HELD 1
#define EMPTY 2 /* with pages or without */
#define CLAIMED 3

#define LIVE 1
#define CACHED 2

/* The words of the blocks. */
byte free_bits[BLOCKS] = { 3, ALL_OF_SECOND }; /* block.free */
byte state[BLOCKS] = EMPTY;                    /* block.state */
bit listed[BLOCKS];                            /* block.listed */
byte look_next[BLOCKS];                        /* block.look_next */
byte mark[SLICES];                             /* block.marks: 0, LIVE or CACHED */

/* The bins. */
bit lock;
byte look_again = NO_BLOCK; /* the stack */
bit in_list[BLOCKS] = 1;    /* in one of runs, or in that of empty blocks */
bit unseen[BLOCKS];         /* given granules since free was read to file it; not while it is held */

/* The heaps. */
byte current[WORKERS] = NO_BLOCK; /* heap.current */
bit busy[WORKERS];                /* heap.state is BUSY */

/* The program. */
bit has[SLICES]; /* from the end of malloc to the call of free */
byte at_work;    /* threads in the middle of something, but for the one with the lock */

#define MY_BLOCK (slice / 2)
#define MY_BIT (1 << (slice % 2))
#define MY_CURRENT current[_pid - FREERS]
#define MY_BUSY busy[_pid - FREERS]

/* ---- without the lock ------------------------------------------------------------------------ */

/* A slice becomes the program's. */
inline hand_out(from)
{
    assert(mark[slice] == from && !has[slice]);
    mark[slice] = LIVE;
    has[slice] = 1
}

/* block_give: OR. */
inline give()
{
    assert((free_bits[MY_BLOCK] & MY_BIT) == 0);
    free_bits[MY_BLOCK] = free_bits[MY_BLOCK] | MY_BIT;
    unseen[MY_BLOCK] = (state[MY_BLOCK] != HELD)
}

/* The end of a free. */
inline done()
{
    at_work--;
    slice = 0;
    first = 0;
    is_held = false;
    goto next_free
}

/* A thread that frees, into the block, or into a cache, out of which the slice is taken again, or flushed. */
active [FREERS] proctype freer()
{
    byte slice, first;
    bool is_held;

next_free:
    atomic {
        if
        :: has[0] -> slice = 0
        :: has[1] -> slice = 1
        :: has[2] -> slice = 2
#if SLICES > 3
        :: has[3] -> slice = 3
#endif
        fi;
        has[slice] = 0;
        at_work++;
#ifdef GIVE_BEFORE_MARK
        give();
    }
    atomic {
#endif
        assert(mark[slice] == LIVE);
        if
        :: mark[slice] = 0; goto to_block /* block_end_life */
        :: mark[slice] = CACHED           /* cache_push */
        fi
    }
    if
    :: atomic { hand_out(CACHED); done() }                       /* cache_pop */
    :: atomic { assert(mark[slice] == CACHED); mark[slice] = 0 } /* flush_class */
    fi;
to_block:
#ifdef STATE_BEFORE_OR
    is_held = (state[MY_BLOCK] == HELD);
#endif
#ifndef GIVE_BEFORE_MARK
    atomic { give() }
#endif
    /* bins_freed. That it looks at `listed` before the exchange changes nothing, and is left out. */
    atomic {
#ifndef STATE_BEFORE_OR
        is_held = (state[MY_BLOCK] == HELD);
#endif
        if
        :: is_held -> done()
        :: else
        fi
    }
    atomic {
        if
        :: listed[MY_BLOCK] -> done()
        :: else
        fi;
#ifdef LISTED_WITHOUT_EXCHANGE
    }
    atomic {
#endif
        listed[MY_BLOCK] = 1
    }
    /* The link is a step with the load, for nobody follows it before the block is on the stack. */
    atomic { first = look_again; look_next[MY_BLOCK] = first }
#ifdef PUSH_WITHOUT_EXCHANGE
    atomic { look_again = MY_BLOCK; done() }
#else
push:
    atomic {
        if
        :: look_again == first -> look_again = MY_BLOCK; done()
        :: else -> first = look_again; look_next[MY_BLOCK] = first; goto push
        fi
    }
#endif
}

/* block_carve: others only add to what was free. */
inline carve()
{
    free = free_bits[MY_CURRENT];
    atomic {
        if
        :: free == 0 -> goto next_call
        :: free != 0 -> slice = 2 * MY_CURRENT + (free & 1 -> 0 : 1)
        fi;
#ifndef CARVE_WITHOUT_AND
        free = free_bits[MY_BLOCK];
#endif
        assert((free_bits[MY_BLOCK] & MY_BIT) != 0);
        free_bits[MY_BLOCK] = free & ~MY_BIT;
        free = 0;
        at_work++
    }
    atomic { hand_out(0); slice = 0; at_work--; goto next_call }
}

/* ---- under the lock -------------------------------------------------------------------------- */

/* Files block b by what was read of `free`. */
inline file_by(b, free_then)
{
    in_list[b] = (free_then != 0);
    state[b] = (free_then == ALL(b) -> EMPTY : FILED)
}

/* file_locked. */
inline file(b)
{
    assert(!in_list[b]);
    unseen[b] = 0;
    file_by(b, free_bits[b])
}

/* look_again_locked, of the stack that begins with b. */
inline look()
{
    do
    :: atomic { b == NO_BLOCK -> b = 0; break }
    :: b != NO_BLOCK ->
#ifdef FREE_BEFORE_LISTED
        atomic { free = free_bits[b]; unseen[b] = 0 }
#endif
#ifdef LINK_AFTER_LISTED
        listed[b] = 0;
#endif
        atomic { next = look_next[b]; look_next[b] = 0 }
#ifndef LINK_AFTER_LISTED
        listed[b] = 0;
#endif
        atomic {
            if
#ifdef HELD_IS_FILED
            :: state[b] == FILED || state[b] == HELD ->
#else
            :: state[b] == FILED ->
#endif
                in_list[b] = 0;
#ifdef FREE_BEFORE_LISTED
                file_by(b, free)
#else
                file(b)
#endif
            :: else
            fi;
            b = next;
            next = 0;
            free = 0
        }
    od
}

/* The end of a section under the lock: b is the thread's block now. */
inline unlock()
{
    MY_CURRENT = b;
    MY_BUSY = 0;
    b = NO_BLOCK;
    lock = 0;
    goto next_call
}

/* A thread that allocates. */
active [WORKERS] proctype worker()
{
    byte b = NO_BLOCK, next, free, slice;

next_call:
    if
    :: MY_CURRENT != NO_BLOCK -> carve()
    :: atomic { !lock -> lock = 1; MY_BUSY = 1; b = look_again; look_again = NO_BLOCK } /* bins_exchange */
        look();
        atomic {
            if
            :: in_list[0] -> b = 0
            :: in_list[1] -> b = 1
            :: b = MY_CURRENT; unlock() /* none is to be had */
            fi;
            assert(state[b] == FILED || state[b] == EMPTY);
            in_list[b] = 0;
            unseen[b] = 0;
            state[b] = HELD;
            if
            :: MY_CURRENT == NO_BLOCK -> unlock()
            :: else
            fi
        }
    :: atomic { !lock && MY_CURRENT != NO_BLOCK -> lock = 1; MY_BUSY = 1 } /* bins_let_go */
    :: atomic { /* bins_release */
            !lock ->
            if
            :: in_list[0] && state[0] == EMPTY -> next = 0
            :: in_list[1] && state[1] == EMPTY -> next = 1
            fi;
            in_list[next] = 0;
            state[next] = CLAIMED;
            MY_BUSY = 1;
            at_work++
        }
        atomic {
            !lock -> lock = 1;
            assert(state[next] == CLAIMED && !in_list[next]);
            state[next] = EMPTY;
            in_list[next] = 1;
            next = 0;
            at_work--;
            b = MY_CURRENT;
            unlock()
        }
    fi;
    /* let_go_locked */
#ifdef FREE_BEFORE_STATE
    atomic { free = free_bits[MY_CURRENT]; unseen[MY_CURRENT] = 0 }
#endif
    state[MY_CURRENT] = FILED;
    atomic {
#ifdef FREE_BEFORE_STATE
        file_by(MY_CURRENT, free);
        free = 0;
#else
        file(MY_CURRENT);
#endif
        unlock()
    }
}

/* ---- the watcher ----------------------------------------------------------------------------- */

/*
 * It changes nothing, so the search has no more states with it. `places`: where a child forked now finds the block,
 * in lists made anew if the lock is held, or with a heap that it may adopt.
 */
active proctype watcher()
{
    byte b, at, places, slice;

    do
    :: d_step {
            b = 0;
            do
            :: b == BLOCKS -> break
            :: else ->
                slice = 2 * b;
                do
                :: slice == 2 * b + 2 || slice == SLICES -> break
                :: else ->
                    assert((free_bits[b] & MY_BIT) == 0 || !has[slice]);
                    assert((free_bits[b] & MY_BIT) != 0 || has[slice] || at_work > 0);
                    slice++
                od;
                places = (lock -> (state[b] == FILED || state[b] == EMPTY) : in_list[b]);
                at = 0;
                do
                :: at == WORKERS -> break
                :: else ->
#ifdef BUSY_IS_ADOPTED
                    places = places + (current[at] == b);
#else
                    places = places + (current[at] == b && !busy[at]);
#endif
                    at++
                od;
                assert(places <= 1);
                if
                :: at_work == 0 && !lock ->
                    /* Is it on the stack? Two blocks have no more than these links. */
                    at = look_again;
                    if
                    :: at == NO_BLOCK || at == b
                    :: else -> at = look_next[at]
                    fi;
                    assert((at == b) == listed[b] && (at != b || look_next[b] != b));
                    assert(state[b] != HELD || (places == 1 && !in_list[b]));
                    assert(state[b] != FILED || in_list[b] == (free_bits[b] != 0) || listed[b]);
                    assert(state[b] != FILED || !unseen[b] || listed[b]);
                    assert((state[b] != EMPTY && state[b] != CLAIMED) || free_bits[b] == ALL(b))
                :: else
                fi;
                b++
            od;
            b = 0;
            at = 0;
            places = 0;
            slice = 0
        }
    od
}
