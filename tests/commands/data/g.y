%token N
%%
e: N | e N;
%%
