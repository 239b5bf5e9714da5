/*
 * allocator_dsofirst_component.c: let plugin files win over linked-in components of the same name.
 *
 * Layer: L2, MCA glue. No allocator at all: it lives in the allocator framework because MPI_Init
 * and ompi_info both open that one before smsc and btl (README.md in this folder).
 *
 * MCA skips a plugin file whose component is linked into libopen-pal. At registration this
 * component takes the linked-in entries it has been told to out of the lists of their frameworks,
 * which have not been looked at by then, so that MCA loads the files as it loads any plugin.
 *
 * Must never take out an entry unless its plugin will do: the user would be left without a
 * transport.
 */

#include "opal_config.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "opal/class/opal_list.h"
#include "opal/constants.h"
#include "opal/mca/allocator/allocator.h"
#include "opal/mca/allocator/base/base.h"
#include "opal/mca/base/base.h"
#include "opal/mca/base/mca_base_component_repository.h"
#include "opal/mca/base/mca_base_framework.h"
#include "opal/mca/mca.h"
#include "opal/runtime/opal.h"
#include "opal/util/argv.h"
#include "opal/util/output.h"

#include "allocator_dsofirst_pair.h"
#include "allocator_dsofirst_plugin.h"

#ifdef SMX_OUT_OF_TREE
#    include "smx_series.h"
SMX_DECLARE_SERIES(allocator_dsofirst);
#else
/* Inside Open MPI's tree the series cannot differ; all ranks may speak. */
#    define SMX_STRING_(x)         #    x
#    define SMX_STRING(x)          SMX_STRING_(x)
#    define SMX_SERIES             SMX_STRING(OPAL_MAJOR_VERSION) "." SMX_STRING(OPAL_MINOR_VERSION)
#    define smx_series_accept(who) true
#    define smx_series_may_speak() true
#endif

/* What was built beside this plugin; configure knows. */
#ifndef SMX_DSOFIRST_DEFAULT
#    define SMX_DSOFIRST_DEFAULT "smsc:cma,btl:sm"
#endif

/* 6.0 keeps pointers to pointers to components, 5.0 pointers to components. Its init macro
 * tells them apart. */
#ifdef MCA_BASE_COMPONENT_INIT
typedef const mca_base_component_t **dsofirst_entry_t;
#    define DSOFIRST_COMPONENT(entry) (*(entry))
#else
typedef const mca_base_component_t *dsofirst_entry_t;
#    define DSOFIRST_COMPONENT(entry) (entry)
#endif

/* By name: their headers bring in what a component of those frameworks needs, and this is none. */
OPAL_DECLSPEC extern mca_base_framework_t opal_smsc_base_framework;
OPAL_DECLSPEC extern mca_base_framework_t opal_btl_base_framework;

static int dsofirst_register(void);
static int dsofirst_open(void);

static char *dsofirst_components = NULL;

OPAL_DECLSPEC extern mca_allocator_base_component_t mca_allocator_dsofirst_component;

mca_allocator_base_component_t mca_allocator_dsofirst_component = {
    .allocator_version =
        {
            MCA_ALLOCATOR_BASE_VERSION_2_0_0,
            .mca_component_name = "dsofirst",
            MCA_BASE_MAKE_VERSION(component, OPAL_MAJOR_VERSION, OPAL_MINOR_VERSION,
                                  OPAL_RELEASE_VERSION),
            .mca_open_component = dsofirst_open,
            .mca_register_component_params = dsofirst_register,
        },
    .allocator_data =
        {
            .param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT,
        },
};
#ifdef MCA_BASE_COMPONENT_INIT
MCA_BASE_COMPONENT_INIT(opal, allocator, dsofirst)
#endif

/* The frameworks whose components can be replaced: those that MPI_Init opens after the
 * allocators. */
static mca_base_framework_t *find_framework(const char *name)
{
    mca_base_framework_t *known[] = {&opal_smsc_base_framework, &opal_btl_base_framework};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (0 == strcmp(known[i]->framework_name, name)) {
            return known[i];
        }
    }
    return NULL;
}

static bool is_linked_in(const mca_base_framework_t *framework, const char *name)
{
    dsofirst_entry_t *entry = framework->framework_static_components;

    for (; NULL != entry && NULL != *entry; entry++) {
        if (0 == strcmp(DSOFIRST_COMPONENT(*entry)->mca_component_name, name)) {
            return true;
        }
    }
    return false;
}

/* The file that MCA's repository has for a component, without ".so"; NULL if it has none. The
 * repository has read the search path by now and keeps the first file of each name. */
static const char *find_plugin(mca_base_framework_t *framework, const char *name)
{
    opal_list_t *items = NULL;
    mca_base_component_repository_item_t *item;

    if (OPAL_SUCCESS != mca_base_component_repository_get_components(framework, &items)
        || NULL == items) {
        return NULL;
    }
    OPAL_LIST_FOREACH(item, items, mca_base_component_repository_item_t)
    {
        if (0 == strcmp(item->ri_name, name)) {
            return item->ri_path;
        }
    }
    return NULL;
}

/* Give the framework a list without that component. The list stays in use after this plugin
 * has been unloaded, up to the end of the process, hence from the heap and never freed. */
static int forget(mca_base_framework_t *framework, const char *name)
{
    dsofirst_entry_t *old = framework->framework_static_components;
    dsofirst_entry_t *list;
    size_t count = 0, kept = 0;

    while (NULL != old[count]) {
        count++;
    }
    list = calloc(count + 1, sizeof(*list));
    if (NULL == list) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    for (size_t i = 0; i < count; i++) {
        if (0 != strcmp(DSOFIRST_COMPONENT(old[i])->mca_component_name, name)) {
            list[kept++] = old[i];
        }
    }
    framework->framework_static_components = list;
    return OPAL_SUCCESS;
}

/* The one line about a plugin that stays unused; every rank would print the same, so one per
 * node does. */
#define SAY(...)                         \
    do {                                 \
        if (smx_series_may_speak()) {    \
            opal_output(0, __VA_ARGS__); \
        }                                \
    } while (0)

static void prefer_plugin(const char *framework_name, const char *name)
{
    const int verbose_output = opal_allocator_base_framework.framework_output;
    char reason[ALLOCATOR_DSOFIRST_REASON_MAX];
    mca_base_framework_t *framework = find_framework(framework_name);
    const char *path;

    if (NULL == framework) {
        SAY("allocator_dsofirst_components: %s:%s ignored, the frameworks it knows are smsc and "
            "btl",
            framework_name, name);
        return;
    }
    path = find_plugin(framework, name);
    if (!is_linked_in(framework, name)) {
        if (NULL == path) {
            SAY("allocator_dsofirst_components: %s:%s ignored, there is no such component",
                framework_name, name);
        }
        return;
    }
    if (mca_base_framework_is_registered(framework)) {
        opal_output_verbose(MCA_BASE_VERBOSE_COMPONENT, verbose_output,
                            "allocator/dsofirst: too late for %s/%s, its framework has chosen",
                            framework_name, name);
        return;
    }
    if (NULL == path) {
        SAY("allocator/dsofirst: no mca_%s_%s.so in %s: Open MPI's own %s/%s is used",
            framework_name, name, mca_base_component_path, framework_name, name);
        return;
    }
    if (!allocator_dsofirst_plugin_usable(path, framework_name, name, SMX_SERIES, reason)) {
        SAY("allocator/dsofirst: %s.so %s: Open MPI's own %s/%s is used", path, reason,
            framework_name, name);
        return;
    }
    if (OPAL_SUCCESS == forget(framework, name)) {
        opal_output_verbose(MCA_BASE_VERBOSE_COMPONENT, verbose_output,
                            "allocator/dsofirst: %s.so takes the place of the linked-in %s/%s",
                            path, framework_name, name);
    }
}

/* MCA unloads this file at once, because it is no allocator; taking it out of the address space costs
 * 0.2 ms, leaving it there 20 KiB that are shared by all processes. */
static void stay(void)
{
    Dl_info self;

    if (0 != dladdr(&dsofirst_components, &self) && NULL != self.dli_fname) {
        (void) dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    }
}

static int dsofirst_register(void)
{
    char **words;

    if (!smx_series_accept("allocator/dsofirst")) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
    dsofirst_components = SMX_DSOFIRST_DEFAULT;
    (void) mca_base_component_var_register(&mca_allocator_dsofirst_component.allocator_version,
                                           "components",
                                           "Comma-separated list of framework:component pairs "
                                           "whose plugin file is to be used although a "
                                           "component of that name is linked into Open MPI; "
                                           "frameworks smsc and btl (default: " SMX_DSOFIRST_DEFAULT
                                           "; empty or \"none\": no pair)",
                                           MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_5,
                                           MCA_BASE_VAR_SCOPE_LOCAL, &dsofirst_components);
    if (mca_base_component_disable_dlopen) {
        return OPAL_SUCCESS;
    }
    words = opal_argv_split(dsofirst_components, ',');
    for (int i = 0; NULL != words && NULL != words[i]; i++) {
        const char *name;
        if (0 == strcmp("none", words[i])) {
            continue;
        }
        name = allocator_dsofirst_pair(words[i]);
        if (NULL == name) {
            SAY("allocator_dsofirst_components: '%s' ignored, it is not of the form "
                "framework:component",
                words[i]);
            continue;
        }
        prefer_plugin(words[i], name);
    }
    opal_argv_free(words);
    stay();
    return OPAL_SUCCESS;
}

/* The work is done at registration, because ompi_info opens nothing; whoever looks for an
 * allocator is spared. */
static int dsofirst_open(void)
{
    return OPAL_ERR_NOT_AVAILABLE;
}
