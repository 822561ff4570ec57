int part(int x)
{
	return x * 2;
}
