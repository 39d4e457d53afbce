/* SPDX-License-Identifier: MIT */
/*
 * objects: what is loaded into the process, from the list that the dynamic linker keeps for debuggers
 * (_r_debug, link.h). It is data: nothing to wrap, no lock, no reference counted, and a search that finds
 * nothing allocates nothing, while a failed dlsym leaves a message for dlerror, made with malloc.
 *
 * Objects that come or go meanwhile may be missed or, in the worst case of a dlclose in another thread, be
 * read while they go; what is looked for here is loaded from the start.
 */
#ifndef PINPOOL_BASE_OBJECTS_H
#define PINPOOL_BASE_OBJECTS_H

#include <stdbool.h>

struct link_map;

/* The object by the last part of its name ("libc.so.6"), or NULL. */
struct link_map *objects_find(const char *name);

/* The function that this object defines by the name, whatever other objects define; NULL when it does not. */
void *objects_symbol(const struct link_map *object, const char *symbol);

/* Does any object define `symbol`? */
bool objects_define(const char *symbol);

/* Does any object but the one that holds `address` define it? Then dlsym(RTLD_NEXT) mostly finds it. */
bool objects_define_elsewhere(const void *address, const char *symbol);

#endif
