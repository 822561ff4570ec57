/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/result/owners.h"

#include <stdlib.h>

#include "analysis/result/build.h"

struct stack_owners {
	struct owner_search search;
	bool known;
};

void owners_release(struct owners *owners)
{
	free(owners->of);
	vector_release(&owners->path);
	numbering_release(&owners->labelled);
	vector_release(&owners->labels);
}

static bool begin_process(struct owners *owners, const struct profile_process *process)
{
	if (owners->process == process)
		return true;
	free(owners->of);
	owners->of = calloc(process->node_count + 1, sizeof *owners->of);
	owners->process = owners->of ? process : NULL;
	return owners->of != NULL;
}

/* From what is known of its caller. */
static bool find_step(struct owners *owners, node_id node)
{
	struct stack_owners *ret = &owners->of[node.v];
	struct location_chain chain = locations_of(owners->locations, owners->process, node);

	if (!chain.at)
		return false;
	*ret = owners->of[profile_parent(owners->process, node).v];
	for (size_t i = chain.count; i > 0; i--)
		owner_visit(&ret->search, chain.at[i - 1]);
	ret->known = true;
	return true;
}

bool owners_find(struct owners *owners, const struct profile_process *process, node_id node,
		 struct owner_search *ret)
{
	if (!begin_process(owners, process))
		return false;
	owners->path.count = 0;
	for (node_id n = node; n.v && !owners->of[n.v].known; n = profile_parent(process, n))
		if (!vector_push(&owners->path, n))
			return false;
	while (owners->path.count)
		if (!find_step(owners, owners->path.at[--owners->path.count]))
			return false;
	*ret = owners->of[node.v].search;
	if (!ret->any && node.v)
		ret->any = locations_of(owners->locations, process, node).at[0];
	return true;
}

const char *owners_label(struct owners *owners, const struct profile_process *process, node_id node,
			 struct result *result)
{
	struct owner_search found;

	if (!owners_find(owners, process, node, &found) || !vector_reserve(&owners->labels, 1))
		return NULL;
	const struct location *owner = owner_found(&found);
	size_t known = owners->labelled.count, number = number_of(&owners->labelled, owner);

	if (number == SIZE_MAX)
		return NULL;
	if (number == known)
		owners->labels.at[owners->labels.count++] = location_label(result, owner);
	return owners->labels.at[number];
}
