#pragma once

#include "weir/concurrency_limiter.hpp"
#include "weir/decision.hpp"
#include "weir/error.hpp"
#include "weir/feedback.hpp"
#include "weir/limiter.hpp"
#include "weir/local_limiter.hpp"
#include "weir/memory_store.hpp"
#include "weir/policy.hpp"
#include "weir/rate.hpp"
#include "weir/record_all.hpp"
#include "weir/redis_store.hpp"
#include "weir/store.hpp"
