/*
 * smx_series.h: for which Open MPI series a plugin was made.
 *
 * Layer: build glue of the out-of-tree build; configure defines SMX_OUT_OF_TREE and SMX_SERIES
 * there and adds config/ to the include path. Inside an Open MPI source tree neither exists and
 * nothing here is needed, so a component includes this file between #ifdef SMX_OUT_OF_TREE and
 * #endif.
 *
 * Used by the component file of each plugin (declares its series, asks at registration whether the
 * running Open MPI is of the same one) and by allocator/dsofirst, which reads the declaration from
 * the plugin file before it hides a linked-in component.
 *
 * Must never touch anything whose layout differs between series: it has to be right in the very
 * case where everything else about the plugin is wrong. Needed because MCA compares only its own
 * version and the names when it loads a plugin (opal/mca/base/mca_base_component_repository.c in
 * Open MPI 5.0.7).
 */

#ifndef SMX_SERIES_H
#define SMX_SERIES_H

#include "opal_config.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opal/mca/mca.h"
#include "opal/util/output.h"
#include "opal/util/show_help.h"

#if !defined(SMX_SERIES)
#    error "SMX_SERIES (for instance \"5.0\") comes from configure"
#endif

/** Room for the text of a series, "major.minor" and the closing zero. */
#define SMX_SERIES_TEXT_MAX 24

/**
 * @brief Put the series into the plugin file, as symbol mca_<name>_built_for.
 *
 * @param name  framework and component, for instance smsc_cma (no quotes)
 *
 * Exactly once per plugin, at file scope. The symbol is visible outside although the rest is
 * hidden.
 */
#define SMX_DECLARE_SERIES(name)                \
    extern const char mca_##name##_built_for[]; \
    __attribute__((visibility("default"), used)) const char mca_##name##_built_for[] = SMX_SERIES

/* Both are data of libopen-pal. Weak: where one is missing (another series, another set of
 * components) the plugin must still load, or it could not say what is wrong. */
extern const char opal_version_string[] __attribute__((weak));
extern mca_base_component_t mca_allocator_basic_component __attribute__((weak));

/**
 * @brief Copy "major.minor" from the start of a version text such as "5.0.7rc1".
 *
 * @param[in]  text    any text, may be NULL
 * @param[out] series  SMX_SERIES_TEXT_MAX bytes, always terminated; empty when there is no version
 * @return true if a version was found
 */
static inline bool smx_series_parse(const char *text, char series[SMX_SERIES_TEXT_MAX])
{
    size_t major, minor;

    series[0] = '\0';
    if (NULL == text) {
        return false;
    }
    text += strcspn(text, "0123456789");
    major = strspn(text, "0123456789");
    if (0 == major || '.' != text[major]) {
        return false;
    }
    minor = strspn(text + major + 1, "0123456789");
    if (0 == minor || major + 1 + minor >= SMX_SERIES_TEXT_MAX) {
        return false;
    }
    memcpy(series, text, major + 1 + minor);
    series[major + 1 + minor] = '\0';
    return true;
}

/**
 * @brief The series of the Open MPI that this process runs in.
 *
 * @param[out] series  SMX_SERIES_TEXT_MAX bytes, "5.0" or so; empty when it cannot be told
 * @return true if it could be told
 *
 * A linked-in component of Open MPI's own carries the numbers in fields that have kept their
 * place since MCA 2.1; the version text comes second because whoever configured Open MPI may have
 * set it to anything.
 */
static inline bool smx_series_running(char series[SMX_SERIES_TEXT_MAX])
{
    const mca_base_component_t *basic = &mca_allocator_basic_component;

    if (NULL != basic && 2 == basic->mca_major_version && 1 == basic->mca_minor_version
        && 0 == strcmp("opal", basic->mca_project_name)) {
        int len = snprintf(series, SMX_SERIES_TEXT_MAX, "%d.%d", basic->mca_project_major_version,
                           basic->mca_project_minor_version);
        return 0 < len && SMX_SERIES_TEXT_MAX > len;
    }
    return smx_series_parse(opal_version_string, series);
}

/**
 * @brief Whether this process is the one of its node that should print what all ranks would print.
 *
 * The launcher's variable, not opal_process_info: that structure differs between series. A
 * process without a launcher (ompi_info, a singleton) speaks for itself.
 */
static inline bool smx_series_may_speak(void)
{
    const char *local_rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK");

    return NULL == local_rank || 0 == strcmp("0", local_rank);
}

/**
 * @brief Let opal_show_help find the help texts of this plugin.
 *
 * make install puts them into single-copy/ beside the plugin: beside, so that a plugin folder can be
 * moved or copied, and not among the plugins, because MCA takes each file there for one more.
 */
static inline void smx_series_add_help(void)
{
    static const char here = 0;
    char dir[PATH_MAX];
    Dl_info plugin;
    const char *slash;

    if (0 == dladdr(&here, &plugin) || NULL == plugin.dli_fname
        || NULL == (slash = strrchr(plugin.dli_fname, '/'))) {
        return;
    }
    if (sizeof(dir) > (size_t) snprintf(dir, sizeof(dir), "%.*s/single-copy",
                                        (int) (slash - plugin.dli_fname), plugin.dli_fname)) {
        (void) opal_show_help_add_dir(dir);
    }
}

/**
 * @brief To be asked first thing in a plugin's register function: is this the Open MPI I was made
 *        for?
 *
 * @param[in] plugin  what the user knows it by, for instance "smsc/cma"
 * @return true: go on; the help texts of the plugin can be used from now on. false: one line was
 *         printed (once per node); return OPAL_ERR_NOT_AVAILABLE.
 */
static inline bool smx_series_accept(const char *plugin)
{
    char running[SMX_SERIES_TEXT_MAX];

    if (smx_series_running(running) && 0 == strcmp(SMX_SERIES, running)) {
        smx_series_add_help();
        return true;
    }
    if (smx_series_may_speak()) {
        opal_output(0, "%s: this plugin was made for Open MPI %s.x and is not used in %s", plugin,
                    SMX_SERIES, '\0' == running[0] ? "this unknown version" : running);
    }
    return false;
}

#endif /* SMX_SERIES_H */
