/* SPDX-License-Identifier: Apache-2.0 */
/* Makes sqlite allocate in as many places as a few statements can. */
#include <stdio.h>

#include "sqlite3.h"

static const char sql[] =
	"create table t(a integer primary key, b text unique, c real, d blob);"
	"with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)"
	"insert into t select i, 'row ' || (i * 7919), i / 3.0, randomblob(i % 97) from n;"
	"create index by_c on t(c desc) where c > 10; create view v as select b, count(*) k from t group by b;"
	"create trigger g after update on t begin insert or ignore into t(b) values ('t' || new.a); end;"
	"update t set c = c + 1 where a % 50 = 0; delete from t where a % 3 = 0; analyze;"
	"select group_concat(b, ','), max(length(d)) from (select * from t order by c limit 500);"
	"select x.b, y.b, row_number() over (partition by x.a % 7 order by x.c) from t x left join t y on x.a = y.a + 1"
	" where x.b like 'row %7%' and exists (select 1 from v where v.b = y.b) order by 3, 1 limit 50;"
	"select json_group_array(json_object('a', a, 'b', b)) from t where a < 200;"
	"select printf('%s %d', b, a) from t union select upper(b) from t except select b from v order by 1 limit 9;"
	"savepoint s; drop view v; rollback to s; release s; alter table t add column e default 7; vacuum; pragma integrity_check;";

int main(void)
{
	sqlite3 *db;
	char *message = NULL;
	int status = sqlite3_open(":memory:", &db);

	if (status == SQLITE_OK)
		status = sqlite3_exec(db, sql, NULL, NULL, &message);
	if (status != SQLITE_OK)
		fprintf(stderr, "%s\n", message ? message : "cannot open");
	sqlite3_free(message);
	sqlite3_close(db);
	return status != SQLITE_OK;
}
