/*
 * allocator_dsofirst_pair.h: take a word of the parameter allocator_dsofirst_components apart.
 *
 * Layer: L0, plain text; no OPAL, no allocation. Called by allocator_dsofirst_component.c with one word
 * at a time, which may be whatever the user has written.
 */

#ifndef ALLOCATOR_DSOFIRST_PAIR_H
#define ALLOCATOR_DSOFIRST_PAIR_H

#include <stddef.h>
#include <string.h>

/**
 * @brief Split "framework:component" in place at its first colon.
 *
 * @param[in,out] word a text, which ends after the framework if there is a pair; else it is untouched
 * @return the component, within the word; NULL if the word is no pair or one of both is empty
 */
static inline const char *allocator_dsofirst_pair(char *word)
{
    char *colon = strchr(word, ':');

    if (NULL == colon || colon == word || '\0' == colon[1]) {
        return NULL;
    }
    *colon = '\0';
    return colon + 1;
}

#endif /* ALLOCATOR_DSOFIRST_PAIR_H */
