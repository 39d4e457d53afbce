/* SPDX-License-Identifier: MIT */
/*
 * The protocol of src/pool/heap.h, for Spin: frees by other threads, the inbox, the drain, a heap that is
 * released and adopted or drained by a passer-by, and empty blocks that change owner.
 *
 * Two blocks of two granules, each granule one slice; two heaps; three threads. Each statement outside
 * atomic is one atomic step of the code (an atomic read-modify-write, or a plain access), so every
 * interleaving of them is searched. Memory order is not modelled: ThreadSanitizer and the argument beside
 * the code are for that.
 *
 * What is asserted: no granule is handed out twice, no block is in two inboxes or twice in one, an empty
 * block has no remote bits, and when all slices are freed and all heaps drained every block is empty (no
 * free is ever lost).
 */
#define BLOCKS 2
#define HEAPS 2
#define ALL 3 /* both granules */
#define NONE 255

byte free_bits[BLOCKS] = ALL;   /* block.free */
byte remote[BLOCKS];      /* block.remote */
byte owner[BLOCKS] = NONE;  /* block.owner */
byte next_in_inbox[BLOCKS];
byte inbox[HEAPS] = NONE;
byte pushes[BLOCKS];      /* how often the block is in an inbox, or taken from one and not folded yet */
bool is_current[BLOCKS];
bool is_pooled[BLOCKS] = true; /* in the region's list: nobody's */

#define WAITING 0
#define TAKEN 1
byte state[HEAPS];        /* WAITING, or TAKEN by one thread */

/* Slices on their way from the thread that carved them to the one that frees them: block * 2 + granule. */
chan handed = [4] of { byte };
byte freed;
byte carved;
byte ended; /* threads */

#ifndef SLICES
#define SLICES 4 /* carved in all */
#endif

/* Onto the inbox of heap o: a loop around a compare-exchange. */
inline push(block)
{
    do
    :: first = inbox[o]; next_in_inbox[block] = first;
       atomic {
           done = (inbox[o] == first);
           if
           :: done -> inbox[o] = block; pushes[block]++; assert(pushes[block] == 1)
           :: else
           fi
       }
       if
       :: done -> break
       :: else
       fi
    od;
    atomic { first = 0; done = false }
}

inline free_slice(slice, self)
{
    b = slice / 2;
    m = 1 << (slice % 2);
    assert((free_bits[b] & m) == 0 && (remote[b] & m) == 0);
    if
    :: owner[b] == self && self != NONE ->
        old = free_bits[b] | m;
        free_bits[b] = old;
#ifdef READ_FREE_AGAIN
        old = free_bits[b]; /* a mistake: with the store before, a dead block may have gone to somebody else */
#endif
        if
        :: old == ALL && !is_current[b] -> assert(remote[b] == 0); is_pooled[b] = true
        :: else
        fi
    :: else ->
        atomic { old = remote[b]; remote[b] = remote[b] | m } /* fetch_or */
        if
        :: old == 0 ->
            o = owner[b]; /* stable: the slice is not in free_bits yet */
            push(b)
        :: else
        fi
    fi;
    atomic { freed++; b = 0; m = 0; old = 0; o = 0; first = 0; done = false }
}

inline drain(heap)
{
    atomic { list = inbox[heap]; inbox[heap] = NONE } /* exchange */
    do
    :: list == NONE -> break
    :: else ->
        b = list;
#ifndef READ_NEXT_TOO_LATE
        list = next_in_inbox[b];
#endif
        atomic { m = remote[b]; remote[b] = 0; pushes[b]--; assert(m != 0 && owner[b] == heap) }
#ifdef READ_NEXT_TOO_LATE
        list = next_in_inbox[b]; /* a mistake, to see that the search finds one */
#endif
        m = free_bits[b] | m;
        free_bits[b] = m; /* and judged by what was stored, as in free_slice */
        if
        :: m == ALL && !is_current[b] -> assert(remote[b] == 0); is_pooled[b] = true
        :: else
        fi
    od;
    atomic { b = 0; m = 0 }
}

/* take_dead_blocks: anybody takes the inbox of a heap whose thread is alive. */
inline take_dead(from)
{
    atomic { list = inbox[from]; inbox[from] = NONE } /* exchange */
    do
    :: list == NONE -> break
    :: else ->
        b = list;
        list = next_in_inbox[b];
#ifdef READ_WORDS_FIRST
        m = free_bits[b]; /* a mistake that was made: is_current is to be read before */
#endif
        done = !is_current[b];
#ifndef READ_WORDS_FIRST
        m = free_bits[b];
#endif
        if
        :: done && (m | remote[b]) == ALL ->
            atomic { m = remote[b]; remote[b] = 0; pushes[b]--; assert(m != 0) }
            free_bits[b] = free_bits[b] | m;
            assert(free_bits[b] == ALL && remote[b] == 0);
            is_pooled[b] = true
        :: else ->
            o = owner[b];
            pushes[b]--; /* in our hands, and not in an inbox; push counts it again */
            push(b)
        fi
    od;
    atomic { b = 0; m = 0; o = 0; done = false }
}

/* Takes an empty block from the region and makes it current, retiring none: there is one at a time. */
inline open_block(heap)
{
    atomic {
        b = 0;
        do
        :: b < BLOCKS && !is_pooled[b] -> b++
        :: else -> break
        od;
        if
        :: b < BLOCKS -> is_pooled[b] = false; assert(free_bits[b] == ALL && remote[b] == 0 && pushes[b] == 0)
        :: else
        fi
    }
    if
    :: b < BLOCKS -> owner[b] = heap; is_current[b] = true; current = b
    :: else -> current = NONE
    fi
}

/* A thread with a heap: carves both granules of a block, retires it, hands the slices on; drains; ends. */
active [2] proctype worker()
{
    byte heap, current = NONE, b, m, old, o, first, list, slice, visit;
    bool done;

    /* adoption: a compare-exchange from WAITING */
    do
    :: atomic { state[0] == WAITING -> state[0] = TAKEN; heap = 0 } break
    :: atomic { state[1] == WAITING -> state[1] = TAKEN; heap = 1 } break
    od;
    do
    :: carved < SLICES ->
        drain(heap);
        /* a passer-by drains a heap that waits, and takes dead blocks from one that does not */
        atomic {
            visit = 1 - heap;
            if
            :: state[visit] == WAITING -> state[visit] = TAKEN
            :: else -> visit = NONE
            fi
        }
        if
        :: visit != NONE -> drain(visit); state[visit] = WAITING
        :: else -> take_dead(1 - heap)
        fi;
        open_block(heap);
        if
        :: current != NONE && carved < SLICES ->
            atomic { free_bits[current] = free_bits[current] & ~1; carved++ }
            handed ! current * 2;
            if
            :: carved < SLICES ->
                atomic { free_bits[current] = free_bits[current] & ~2; carved++ }
                handed ! current * 2 + 1
            :: else
            fi;
            /* retire: looked at while it is current, for afterwards another may take it when it is dead */
            if
            :: free_bits[current] == ALL ->
                assert(remote[current] == 0);
                is_current[current] = false;
                is_pooled[current] = true
            :: else -> is_current[current] = false
            fi
        :: current != NONE -> is_current[current] = false; is_pooled[current] = true
        :: else
        fi
    :: handed ? slice -> free_slice(slice, heap)
    :: carved >= SLICES && empty(handed) -> break
    od;
    drain(heap);
    state[heap] = WAITING;
    ended++
}

/* A thread that only frees, and has no heap. */
active proctype freer()
{
    byte b, m, old, o, first, slice;
    bool done;

    do
    :: handed ? slice -> free_slice(slice, NONE)
    :: carved >= SLICES && empty(handed) -> break
    od;
    ended++
}

/* When everybody is gone: drains what is left, and looks whether anything was lost. */
active proctype last()
{
    byte b, m, list, i;

    ended == 3;
    assert(freed == carved);
    drain(0);
    drain(1);
    for (i : 0 .. BLOCKS - 1) {
        assert(free_bits[i] == ALL && remote[i] == 0 && pushes[i] == 0 && is_pooled[i])
    }
}
