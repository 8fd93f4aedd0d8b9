#pragma once

// The only include of DPDK. The header with its settings comes first: its other headers rely on that.
#include <rte_config.h>
// The call that lets an adapter read memory of ours has been there for years, and is still called an experiment.
#define ALLOW_EXPERIMENTAL_API

#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_memory.h>
