/* SPDX-License-Identifier: Apache-2.0 */
/* Sample types of heap profiles: see sample_types.h. No state. */
#include "export/sample_types.h"

#include <math.h>

#include "analysis/result/imported.h"
#include "base/compiler.h"
#include "export/stacks.h"

/* Present in every profile; the selected cost is added if it is none of them. */
static const struct {
	const char *name, *variance;
	enum cost_id cost;
} usual[] = {
	{ "alloc_objects", "alloc_objects_variance", COST_CALLS },
	{ "alloc_space", "alloc_space_variance", COST_TOTAL },
	{ "inuse_objects", "inuse_objects_variance", COST_BLOCKS },
	{ "inuse_space", "inuse_space_variance", COST_LIVE },
};
_Static_assert(SAMPLE_TYPES_MAX == 2 * (ARRAY_SIZE(usual) + 1), "room for the variances");

struct sample_types sample_types_of(const struct export_input *in)
{
	enum cost_id cost = in->selection->cost;
	/* Without totals only the last two are known. */
	bool totals = imported_knows(in->profile, COST_TOTAL, MOMENT_DEFAULT);
	size_t first = totals ? 0 : ARRAY_SIZE(usual) - 2, known = ARRAY_SIZE(usual) - first;
	struct sample_types types = { .count = known, .selected = known };

	for (size_t i = 0; i < known; i++) {
		enum cost_id usual_cost = usual[first + i].cost;

		types.at[i] = (struct sample_type){ usual[first + i].name,
						    cost_unit_word(usual_cost), usual_cost, false };
		if (usual_cost == cost)
			types.selected = i;
	}
	if (types.selected == types.count)
		types.at[types.count++] = (struct sample_type){ cost_rows[cost].key,
								cost_unit_word(cost), cost, false };
	if (!is_estimated(in) || (in->interval && in->interval->only_usual_types))
		return types;
	for (size_t i = 0, count = types.count; i < count; i++)
		types.at[types.count++] =
			(struct sample_type){ i < known ? usual[first + i].variance : "variance",
					      "variance", types.at[i].cost, true };
	return types;
}

int64_t sample_value(const struct export_input *in, const struct sample_type *type,
		     const struct measures *m)
{
	uint64_t duration_ns = in->selection->duration_ns;

	if (type->is_variance)
		return whole_variance(fabs(cost_variance(type->cost, m, duration_ns)));
	return cost_of(type->cost, m, duration_ns);
}

uint64_t sampling_period(const struct profile *profile)
{
	uint64_t period = 1;

	for (size_t i = 0; i < profile->process_count; i++)
		period = MAX(period, profile->processes[i].interval);
	return period;
}
