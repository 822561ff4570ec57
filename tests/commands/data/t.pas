program t;
var s: string; i: integer;
begin
  s := '';
  for i := 1 to 50 do s := s + 'x';
  writeln(length(s));
end.
