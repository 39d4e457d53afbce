/* SPDX-License-Identifier: MIT */
/*
 * Two frees of one slice at the same time, for Spin: the program's mistake, and what the slice's mark does about it
 * (block.h, "of two frees of one slice"). Two threads free it, each to its block, or into its own cache, out of which
 * it takes or flushes it; a third carves what is free.
 *
 * What is asserted: the slice is not handed out twice, unless the program is about to be ended; and of two frees to
 * the block one is told so. But for this: a cache looks at a mark and then stores one, and between the two a thread
 * may be stopped while the slice is handed out. Hand-outs wait for that here; with STOPPED they do not.
 *
 * Defined with -D, a name IN_CAPITALS beside an #ifdef makes a mistake, which the search has to find.
 */
#define LIVE 1
#define LIVE_AGAIN 255    /* in the code as before: whoever frees it a second time now, frees what another has */
#define CACHED (2 + _pid) /* block_cached_mark */

byte mark = LIVE;
bit is_free;       /* its granule, in block.free */
bit is_out;        /* handed out after the frees */
byte between;      /* threads between a look at the mark and their store for a cache */
bit uses_cache;    /* one of them does */
byte ended;        /* threads */
bit is_told;       /* the program ends */

#ifdef STOPPED
#define NOBODY_BETWEEN true
#else
#define NOBODY_BETWEEN (between == 0)
#endif

inline look(expected)
{
    is_mine = (mark == expected);
    between = between + is_mine
}

inline store(to)
{
    mark = to;
    between--
}

inline hand_out()
{
    assert(!is_out || is_told);
    is_out = 1
}

inline free_to_block()
{
    is_mine = (mark == LIVE); /* block_find */
#ifdef MARK_WITHOUT_CAS
    mark = (is_mine -> 0 : mark);
#else
    atomic { is_mine = is_mine && mark == LIVE; mark = (is_mine -> 0 : mark) } /* block_end_life */
#endif
    if
    :: is_mine -> is_free = 1
    :: else
    fi
}

inline look_in_cache()
{
#ifdef LEAVES_UNSEEN
    between++
#else
    look(CACHED)
#endif
}

inline free_to_cache()
{
    atomic { uses_cache = 1; look(LIVE) }
    if
    :: is_mine ->
        atomic { store(CACHED) }
        if
        :: atomic { NOBODY_BETWEEN -> look_in_cache() } /* cache_pop */
            atomic {
                if
                :: is_mine -> store(LIVE_AGAIN); hand_out()
                :: else
                fi
            }
        :: atomic { true -> look_in_cache() } /* flush_class */
            if
            :: is_mine ->
                atomic { store(0) }
                is_free = 1
            :: else
            fi
        fi
    :: else
    fi
}

active [2] proctype freer()
{
    bool is_mine;

    if
    :: free_to_block()
    :: free_to_cache()
    fi;
    atomic {
        is_told = is_told || !is_mine;
        ended++;
        assert(ended < 2 || is_told || uses_cache)
    }
}

/* Carves: block_take. */
active proctype holder()
{
    bool is_mine;

    do
    :: atomic {
            is_free && NOBODY_BETWEEN;
#ifdef TAKES_UNSEEN
            is_mine = true
#else
            is_mine = (mark == 0)
#endif
        }
        is_free = 0;
        atomic {
            if
            :: is_mine -> mark = LIVE_AGAIN; hand_out()
            :: else -> is_told = true
            fi;
            is_mine = false
        }
    od
}
