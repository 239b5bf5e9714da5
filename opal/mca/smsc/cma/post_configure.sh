DIRECT_CALL_HEADER="opal/mca/smsc/cma/smsc_cma.h"
