#include "tests/support/test.h"
